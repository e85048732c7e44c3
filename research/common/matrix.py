"""The matrix of scores: how well each domain is known after each stage."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean


@dataclass(frozen=True)
class Matrix:
    """Rows are stages: the domains that were learned in it, and the score on each domain that was tested after it."""

    rows: list[tuple[tuple[str, ...], Mapping[str, float]]] = field(default_factory=list)

    def add(self, learned: Iterable[str], scores: Mapping[str, float]) -> None:
        self.rows.append((tuple(learned), dict(scores)))

    @property
    def learned_at(self) -> dict[str, int]:
        """The stage in which each domain was first learned."""
        stages: dict[str, int] = {}
        for stage, (learned, _) in enumerate(self.rows):
            for name in learned:
                stages.setdefault(name, stage)
        return stages

    @property
    def last(self) -> Mapping[str, float]:
        return self.rows[-1][1]

    def when_learned(self) -> dict[str, float]:
        """The score on each domain just after it was learned."""
        return {name: self.rows[stage][1][name] for name, stage in self.learned_at.items()}

    def average(self) -> float | None:
        """The mean score at the end over the domains learned."""
        known = [self.last[name] for name in self.learned_at if name in self.last]
        return fmean(known) if known else None

    def forgetting(self) -> float | None:
        """The mean loss of the earlier domains against the best they were since they were learned."""
        losses = []
        for name, stage in self.learned_at.items():
            seen = [scores[name] for _, scores in self.rows[stage:-1] if name in scores]
            if seen and name in self.last:
                losses.append(max(seen) - self.last[name])
        return fmean(losses) if losses else None
