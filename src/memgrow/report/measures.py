"""How scores are shown: accuracy and BLEU-2 as they are, 1 / perplexity as the perplexity, where lower is better.

A score is stored so that higher is better, whatever it is shown as. So what is better is decided, and coloured, by the
score, and a figure for people is made of it last.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log
from statistics import fmean, geometric_mean

from memgrow.evaluation.comparison import LABELS, REPLIES, Kind
from memgrow.evaluation.history import AccuracyMatrix, perplexity_of
from memgrow.models import REPLY
from memgrow.report.table import UNKNOWN, percent, perplexity_text, signed


@dataclass(frozen=True)
class Measure:
    """A measure: what it is called, and how scores of it are shown, averaged, told apart and placed on a scale."""

    name: str
    axis: str
    better: str  # higher or lower
    figure: Callable[[float], float]  # of a score: the number that people read
    text: Callable[[float], str]
    place: Callable[[float], float]  # on a scale on which equal steps look equal; higher is better
    unplace: Callable[[float], float]  # the score at a place
    least: float  # range of that scale, at least: small differences are to look small
    mean: Callable[[Sequence[float]], float]
    lost: Callable[[float, float], float | None]  # of the best score and the last: what was lost between them
    lost_name: str
    lost_text: Callable[[float], str]

    def shown(self, score: float | None) -> str:
        return UNKNOWN if score is None else self.text(score)

    def average(self, matrix: AccuracyMatrix) -> float | None:
        """The mean score at the end over all domains learnt so far."""
        return self._mean(matrix.score(-1, name) for name in matrix.learned_at())

    def forgetting(self, matrix: AccuracyMatrix) -> float | None:
        """The mean of what the earlier domains lost since they were known best."""
        losses = [one for name in matrix.learned_at() if (one := self.lost_of(matrix, name)) is not None]
        return None if not losses else geometric_mean(losses) if self.better == "lower" else fmean(losses)

    def lost_of(self, matrix: AccuracyMatrix, domain: str) -> float | None:
        """What a domain lost against the best it ever was; None of the last, the untested and the infinite."""
        stage, last = matrix.learned_at()[domain], len(matrix.rows) - 1
        seen = [score for at in range(stage, last) if (score := matrix.score(at, domain)) is not None]
        now = matrix.score(last, domain)
        return None if not seen or now is None else self.lost(max(seen), now)

    def on_scale(self, scores: Iterable[float]) -> list[float]:
        """The scores that a scale is made for: beside an infinite figure all others would look alike."""
        given = list(scores)
        return [score for score in given if isfinite(self.figure(score))] or given

    def _mean(self, scores: Iterable[float | None]) -> float | None:
        known = [score for score in scores if score is not None]
        return self.mean(known) if known else None


def _share(kind: Kind, name: str, axis: str, digits: int, least: float) -> Measure:
    """A score out of 1, shown out of 100; what is lost are points of it."""
    return Measure(
        name,
        axis,
        "higher",
        lambda score: 100 * score,
        lambda score: percent(score, digits=digits) + ("%" if kind.unit == "%" else ""),
        lambda score: score,
        lambda place: max(place, 0.0),
        least,
        fmean,
        lambda best, last: best - last,
        "forgetting, points" if kind.unit == "%" else f"forgetting, points of {name}",
        lambda lost: signed(100 * lost, digits),
    )


def _times(best: float, last: float) -> float | None:
    """How many times its best a perplexity is; nothing is a multiple of an infinite one."""
    if best <= 0:
        return None
    return best / last if last > 0 else inf


MEASURES = {
    LABELS.measure: _share(LABELS, "accuracy", "test accuracy, %", 1, 0.1),
    REPLIES.measure: _share(REPLIES, "BLEU-2", "BLEU-2 of the test replies", 2, 0.01),
    "perplexity": Measure(
        "perplexity",
        "test perplexity (lower is better)",
        "lower",
        perplexity_of,
        lambda score: perplexity_text(perplexity_of(score)),
        lambda score: log(max(score, 1e-300)),
        exp,
        log(1.5),
        lambda scores: geometric_mean(scores) if min(scores) > 0 else 0.0,
        _times,
        "forgetting: perplexity at the end, in times its best",
        "× {:.2f}".format,
    ),
}


def measure_of_task(task: str | None) -> Measure:
    """What the history of a model for that task is measured by."""
    return MEASURES["perplexity" if task == REPLY else LABELS.measure]


@dataclass(frozen=True)
class Scale:
    """The range of scores that colours are spread over, from the worst that is shown to the best."""

    measure: Measure
    worst: float
    best: float

    @classmethod
    def over(cls, measure: Measure, scores: Iterable[float]) -> "Scale":
        """From the worst of the scores to the best; further down where they are so near that they are to look alike."""
        known = measure.on_scale(scores) or [0.0, 1.0]
        lowest = measure.unplace(measure.place(max(known)) - measure.least)
        return cls(measure, min(*known, lowest), max(known))

    def step(self, score: float, steps: int) -> int:
        """The colour of a score, of so many: 0 is the worst."""
        place = self.measure.place
        worst, best = place(self.worst), place(self.best)
        room = max(best - worst, self.measure.least)
        return min(steps - 1, max(0, int(steps * (1 - (best - place(score)) / room))))


def validation_axis(measure: Measure) -> str:
    """What the score on validation examples is called beside an axis."""
    return f"validation {measure.name}{', %' if measure.better == 'higher' else ''}"
