"""Which labels were given for which: the confusion matrix, figures of each label, and two models held side by side."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import erfc, sqrt
from typing import Any

import numpy as np
from torch import Tensor

from memgrow.errors import DataError

NORMAL_95 = 1.959963984540054  # standard errors from the middle of a 95% interval to its ends
EXACT = 10_000  # examples answered differently, up to which all ways of tossing a coin for them are counted


@dataclass(frozen=True)
class LabelFigures:
    """How well one label is told from the others; a figure that nothing speaks of is 0, as is usual."""

    precision: float  # of the examples that were given the label, the share that have it
    recall: float  # of the examples that have the label, the share that were given it
    f1: float  # the harmonic mean of the two
    examples: int  # that have the label


@dataclass(frozen=True)
class Confusion:
    """How often each label was given to examples of each: counts[right][given]."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, labels: Sequence[str], right: Sequence[int], given: Sequence[int]) -> "Confusion":
        """Of the numbers of right labels and of those that were given."""
        if len(right) != len(given) or not right:
            raise DataError(f"a confusion matrix needs examples: {len(right)} labels, {len(given)} answers")
        places = np.asarray(right, dtype=np.int64) * len(labels) + np.asarray(given, dtype=np.int64)
        table = np.bincount(places, minlength=len(labels) ** 2).reshape(len(labels), len(labels))
        return cls(tuple(labels), tuple(tuple(int(count) for count in row) for row in table))

    @property
    def examples(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float:
        """The share of right answers. Where every example has one label this is the micro-averaged F1 as well."""
        return sum(row[number] for number, row in enumerate(self.counts)) / self.examples

    @property
    def baseline(self) -> float:
        """The accuracy of whoever gives the most frequent label to all."""
        return max(map(sum, self.counts)) / self.examples

    @property
    def most_frequent(self) -> str:
        return self.labels[max(range(len(self.labels)), key=lambda number: sum(self.counts[number]))]

    def by_label(self) -> dict[str, LabelFigures]:
        """The figures of each label that an example has or was given."""
        table = np.asarray(self.counts)
        found = {}
        for number, label in enumerate(self.labels):
            hits, has, got = int(table[number, number]), int(table[number].sum()), int(table[:, number].sum())
            if has or got:
                found[label] = LabelFigures(_share(hits, got), _share(hits, has), _share(2 * hits, has + got), has)
        return found

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1, in which a rare label counts as much as a frequent one."""
        figures = self.by_label()
        return sum(one.f1 for one in figures.values()) / len(figures)

    def to_json(self) -> dict[str, Any]:
        return {
            "examples": self.examples,
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "micro_f1": self.accuracy,
            "baseline": self.baseline,
            "most_frequent": self.most_frequent,
            "labels": {label: asdict(figures) for label, figures in self.by_label().items()},
            "confusion": {"labels": list(self.labels), "counts": [list(row) for row in self.counts]},
        }


def confusion_of(labels: Sequence[str], logits: Tensor, right: Tensor) -> Confusion:
    """Of logits (examples, labels) and the numbers of the right labels (examples)."""
    return Confusion.of(labels, right.tolist(), logits.argmax(-1).tolist())


@dataclass(frozen=True)
class SideBySide:
    """Two models on the same examples: the first one's accuracy less the second's, with its 95% interval and p.

    Only examples that one of them gets right and the other wrong tell them apart.
    """

    examples: int
    only_first: int  # right by the first model alone
    only_second: int
    difference: float
    low: float
    high: float
    p: float  # McNemar's exact test, two-sided: that the two are equally good

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def side_by_side(first: Sequence[bool], second: Sequence[bool]) -> SideBySide:
    """Two models' right and wrong answers to the same examples in the same order.

    The interval is Bonett and Price's, which keeps its promise also where few answers differ.
    """
    if len(first) != len(second) or not first:
        raise DataError(f"answers are compared in pairs: {len(first)} cannot be set beside {len(second)}")
    ours, theirs = (np.asarray(one, dtype=bool) for one in (first, second))
    return compare_counts(len(ours), int((ours & ~theirs).sum()), int((theirs & ~ours).sum()))


def compare_counts(examples: int, only_first: int, only_second: int) -> SideBySide:
    """The same, of how many examples one model alone gets right."""
    a, b = (only_first + 1) / (examples + 2), (only_second + 1) / (examples + 2)
    half = NORMAL_95 * sqrt((a + b - (a - b) ** 2) / (examples + 2))
    low, high = max(-1.0, a - b - half), min(1.0, a - b + half)
    difference = (only_first - only_second) / examples
    return SideBySide(examples, only_first, only_second, difference, low, high, mcnemar(only_first, only_second))


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's exact test: how likely a fair coin, tossed for each example answered differently, is as one-sided."""
    tosses, fewer = only_first + only_second, min(only_first, only_second)
    if tosses > EXACT:  # the normal distribution is as good by then
        return min(1.0, erfc((abs(only_first - only_second) - 1) / sqrt(2 * tosses)))
    ways, term = 0, 1
    for heads in range(fewer + 1):
        ways += term
        term = term * (tosses - heads) // (heads + 1)
    return min(1.0, 2 * ways / (1 << tosses))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
