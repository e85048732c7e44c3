"""The accuracy matrix: how well each domain is known after each stage, and what follows from it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import Any


@dataclass(frozen=True)
class Row:
    """A stage: what was learnt in it, and the accuracy on each domain that was tested after it."""

    learned: tuple[str, ...]
    scores: Mapping[str, float]


@dataclass(frozen=True)
class AccuracyMatrix:
    """Rows are stages, columns are domains. A domain may be untested after a stage: its data may be gone."""

    rows: tuple[Row, ...] = ()

    def with_row(self, learned: Iterable[str], scores: Mapping[str, float]) -> "AccuracyMatrix":
        return AccuracyMatrix((*self.rows, Row(tuple(learned), dict(scores))))

    @property
    def domains(self) -> tuple[str, ...]:
        """All domains: the learnt ones in their order, then those that were only tested."""
        learned = [name for row in self.rows for name in row.learned]
        return tuple(dict.fromkeys([*learned, *(name for row in self.rows for name in row.scores)]))

    def score(self, stage: int, domain: str) -> float | None:
        return self.rows[stage].scores.get(domain)

    def learned_at(self) -> dict[str, int]:
        """The stage in which each domain was first learnt."""
        stages: dict[str, int] = {}
        for stage, row in enumerate(self.rows):
            for name in row.learned:
                stages.setdefault(name, stage)
        return stages

    def average(self) -> float | None:
        """Mean accuracy at the end over all domains learnt so far."""
        return _mean(self.score(-1, name) for name in self.learned_at())

    def backward_transfer(self) -> float | None:
        """Mean change of the earlier domains' accuracy since they were learnt; below zero where they suffered."""
        return _mean(_difference(self.score(-1, name), self.score(stage, name)) for name, stage in self._earlier())

    def forgetting(self) -> float | None:
        """Mean loss of the earlier domains' accuracy against the best it ever was since they were learnt."""
        losses = []
        for name, stage in self._earlier():
            seen = [score for at in range(stage, len(self.rows) - 1) if (score := self.score(at, name)) is not None]
            losses.append(_difference(max(seen, default=None), self.score(-1, name)))
        return _mean(losses)

    def forward_transfer(self, baseline: Mapping[str, float]) -> float | None:
        """Mean accuracy on later domains just before they were learnt, above the `baseline` of each.

        The baseline is what one has without any learning, such as the share of the most frequent label.
        """
        gains = [
            _difference(self.score(stage - 1, name), baseline.get(name))
            for name, stage in self.learned_at().items()
            if stage > 0
        ]
        return _mean(gains)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"learned": list(row.learned), "scores": dict(row.scores)} for row in self.rows]

    @classmethod
    def from_json(cls, rows: Iterable[Mapping[str, Any]]) -> "AccuracyMatrix":
        return cls(tuple(Row(tuple(row["learned"]), dict(row["scores"])) for row in rows))

    def _earlier(self) -> list[tuple[str, int]]:
        return [(name, stage) for name, stage in self.learned_at().items() if stage < len(self.rows) - 1]


def perplexity_of(score: float) -> float:
    """The perplexity that a score of replies, 1 / perplexity, stands for: infinite where the score has sunk to 0."""
    return 1 / score if score > 0 else inf


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
