"""How scores are displayed: accuracy and BLEU-2 as they are, 1 / perplexity as the perplexity.

Scores are stored so that higher is better; only the display differs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, geometric_mean

from memgrow.evaluation.history import AccuracyMatrix, perplexity_of
from memgrow.evaluation.tables import UNKNOWN, percent, perplexity_text, signed


@dataclass(frozen=True)
class Measure:
    """A measure's name, its label on an axis, and the digits of its scores."""

    name: str
    axis: str
    digits: int = 1
    unit: str = ""

    @property
    def is_perplexity(self) -> bool:
        return self.name == "perplexity"

    @property
    def lost_name(self) -> str:
        return "forgetting: perplexity, times its best" if self.is_perplexity else "forgetting, points"

    def value(self, score: float) -> float:
        """The number that people read: a perplexity, or a share out of 100."""
        return perplexity_of(score) if self.is_perplexity else 100 * score

    def text(self, score: float | None, unit: bool = True) -> str:
        if score is None:
            return UNKNOWN
        if self.is_perplexity:
            return perplexity_text(perplexity_of(score))
        return percent(score, digits=self.digits) + (self.unit if unit else "")

    def mean(self, scores: Sequence[float]) -> float:
        if not self.is_perplexity:
            return fmean(scores)
        return geometric_mean(scores) if min(scores) > 0 else 0.0

    def average(self, matrix: AccuracyMatrix) -> float | None:
        """The mean score at the end over all learned domains; geometric for perplexities."""
        known = [score for name in matrix.learned_at() if (score := matrix.score(-1, name)) is not None]
        return self.mean(known) if known else None

    def lost(self, best: float, last: float) -> float | None:
        """What was lost between two scores: points, or how many times a perplexity is its best."""
        if not self.is_perplexity:
            return best - last
        return None if best <= 0 else best / last if last > 0 else inf

    def lost_of(self, matrix: AccuracyMatrix, domain: str) -> float | None:
        """What a domain lost against its best score before the last stage."""
        best = AccuracyMatrix(matrix.rows[:-1]).scores_since(matrix.learned_at()[domain], domain)
        now = matrix.score(-1, domain)
        return None if not best or now is None else self.lost(max(best), now)

    def forgetting(self, matrix: AccuracyMatrix) -> float | None:
        """The mean of what earlier domains lost."""
        return self.mean_loss(self.lost_of(matrix, name) for name in matrix.learned_at())

    def mean_loss(self, losses: Iterable[float | None]) -> float | None:
        known = [one for one in losses if one is not None]
        return None if not known else geometric_mean(known) if self.is_perplexity else fmean(known)

    def lost_text(self, lost: float | None) -> str:
        if lost is None:
            return UNKNOWN
        return f"× {lost:.2f}" if self.is_perplexity else signed(100 * lost, self.digits)


MEASURES = {
    "accuracy": Measure("accuracy", "test accuracy, %", unit="%"),
    "bleu2": Measure("BLEU-2", "BLEU-2 of the test replies", digits=2),
    "perplexity": Measure("perplexity", "test perplexity (lower is better)", digits=2),
}


def measure_of_task(task: str | None) -> Measure:
    """The measure of a model's history."""
    return MEASURES["perplexity" if task == "reply" else "accuracy"]
