"""Metrics of labels (confusion matrix, F1), of two models (McNemar) and of two methods over seeds (Student's t)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from operator import itemgetter
from statistics import fmean
from typing import Any

import numpy as np
from torch import Tensor

NO_SPREAD = 1e-12  # below this a standard error is rounding


# Labels


@dataclass(frozen=True)
class LabelMetrics:
    """Precision, recall and F1 of one label; 0 where the denominator is 0."""

    precision: float
    recall: float
    f1: float
    examples: int  # that have the label


@dataclass(frozen=True)
class Confusion:
    """The confusion matrix: counts[label][prediction]."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, labels: Sequence[str], right: Sequence[int], given: Sequence[int]) -> "Confusion":
        """From the indices of the right labels and of the predicted ones."""
        cells = np.asarray(right, dtype=np.int64) * len(labels) + np.asarray(given, dtype=np.int64)
        table = np.bincount(cells, minlength=len(labels) ** 2).reshape(len(labels), len(labels))
        return cls(tuple(labels), tuple(tuple(int(count) for count in row) for row in table))

    @property
    def examples(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float:
        """With one label per example this is also the micro-averaged F1."""
        return sum(row[index] for index, row in enumerate(self.counts)) / self.examples

    @property
    def baseline(self) -> float:
        return max(map(sum, self.counts)) / self.examples

    @property
    def most_frequent(self) -> str:
        return max(zip(map(sum, self.counts), self.labels, strict=True), key=itemgetter(0))[1]

    def by_label(self) -> dict[str, LabelMetrics]:
        """The metrics of each label that occurs as a label or a prediction."""
        counts = np.asarray(self.counts)
        hits, has, got = (sums.tolist() for sums in (counts.diagonal(), counts.sum(1), counts.sum(0)))
        return {
            label: LabelMetrics(hit / max(given, 1), hit / max(own, 1), 2 * hit / (own + given), own)
            for label, hit, own, given in zip(self.labels, hits, has, got, strict=True)
            if own or given
        }

    @property
    def macro_f1(self) -> float:
        """The unweighted mean of the labels' F1."""
        return fmean(one.f1 for one in self.by_label().values())

    def to_json(self) -> dict[str, Any]:
        return {
            "examples": self.examples,
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "micro_f1": self.accuracy,
            "baseline": self.baseline,
            "most_frequent": self.most_frequent,
            "labels": {label: asdict(metrics) for label, metrics in self.by_label().items()},
            "confusion": {"labels": list(self.labels), "counts": [list(row) for row in self.counts]},
        }


def confusion_of(labels: Sequence[str], logits: Tensor, right: Tensor) -> Confusion:
    """From logits (examples, labels) and the indices of the right labels (examples)."""
    return Confusion.of(labels, right.tolist(), logits.argmax(-1).tolist())


def margin(share: float, examples: int) -> float:
    """Two standard errors of the difference of two accuracies near `share`, each on so many examples.

    One right and one wrong answer are added: 8 of 8 right do not show that there is no error.
    """
    share = (share * examples + 1) / (examples + 2)
    return 2 * sqrt(2 * share * (1 - share) / examples)


# Two methods over seeds


@dataclass(frozen=True)
class Paired:
    """The first method's score minus the second's; without spread, or without scipy, there is no interval."""

    difference: float
    std: float | None
    n: int
    low: float | None  # of the 95% interval
    high: float | None
    p_t: float | None  # two-sided


def paired_over_seeds(a: Sequence[float], b: Sequence[float]) -> Paired:
    """Compare the scores of two methods, each at the same seeds in the same order."""
    differences = np.subtract(a, b)
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return Paired(mean, None, n, None, None, None)
    std = float(differences.std(ddof=1))
    if (error := std / n**0.5) <= NO_SPREAD:
        return Paired(mean, std, n, None, None, 1.0 if abs(mean) <= NO_SPREAD else None)
    try:
        from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats takes long to load
    except ImportError:
        return Paired(mean, std, n, None, None, None)
    half = float(stdtrit(n - 1, 0.975)) * error
    p = min(1.0, 2 * float(stdtr(n - 1, -abs(mean) / error)))
    return Paired(mean, std, n, mean - half, mean + half, p)
