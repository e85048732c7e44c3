"""Metrics of labels and of replies: confusion matrix, F1, McNemar's test, BLEU-2, distinct-n, W2V-Sim.

BLEU-2 is the paper's, over a whole test set and without smoothing: with c words in all outputs and r in all references,
100 x min(1, exp(1 - r / c)) x sqrt(p1 x p2), where p1 and p2 are the clipped unigram and bigram precisions. It equals
sacrebleu with orders 1 and 2, no smoothing and no tokenizer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import erfc, exp, sqrt
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from memgrow.data.vectors import Vectors
from memgrow.errors import DataError

NORMAL_95 = 1.959963984540054  # standard errors from the middle of a 95% interval to its ends
EXACT_MCNEMAR = 10_000  # discordant examples up to which the binomial distribution is summed exactly

Texts = Sequence[Sequence[str]]  # the words of each text
Vector = NDArray[np.float64]


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
        if len(right) != len(given) or not right:
            raise DataError(f"a confusion matrix needs as many predictions as labels: {len(right)} and {len(given)}")
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
        """The accuracy of the majority class."""
        return max(map(sum, self.counts)) / self.examples

    @property
    def most_frequent(self) -> str:
        return self.labels[max(range(len(self.labels)), key=lambda index: sum(self.counts[index]))]

    def by_label(self) -> dict[str, LabelMetrics]:
        """The metrics of each label that occurs as a label or a prediction."""
        table, found = np.asarray(self.counts), {}
        for index, label in enumerate(self.labels):
            hits, has, got = int(table[index, index]), int(table[index].sum()), int(table[:, index].sum())
            if has or got:
                found[label] = LabelMetrics(_share(hits, got), _share(hits, has), _share(2 * hits, has + got), has)
        return found

    @property
    def macro_f1(self) -> float:
        """The unweighted mean of the labels' F1."""
        metrics = self.by_label()
        return sum(one.f1 for one in metrics.values()) / len(metrics)

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


@dataclass(frozen=True)
class SideBySide:
    """Two models on the same examples: the first one's accuracy minus the second's, its 95% interval and p-value."""

    examples: int
    only_first: int  # right by the first model alone
    only_second: int
    difference: float
    low: float
    high: float
    p: float  # McNemar's exact test, two-sided

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def side_by_side(first: Sequence[bool], second: Sequence[bool]) -> SideBySide:
    """Compare which of the same examples two models answer correctly."""
    if len(first) != len(second) or not first:
        raise DataError(f"two models are compared on the same examples: {len(first)} and {len(second)} were given")
    ours, theirs = (np.asarray(one, dtype=bool) for one in (first, second))
    return compare_counts(len(ours), int((ours & ~theirs).sum()), int((theirs & ~ours).sum()))


def compare_counts(examples: int, only_first: int, only_second: int) -> SideBySide:
    """The same from counts; the interval is Bonett and Price's, which also holds where few answers differ."""
    a, b = (only_first + 1) / (examples + 2), (only_second + 1) / (examples + 2)
    half = NORMAL_95 * sqrt((a + b - (a - b) ** 2) / (examples + 2))
    low, high = max(-1.0, a - b - half), min(1.0, a - b + half)
    difference = (only_first - only_second) / examples
    return SideBySide(examples, only_first, only_second, difference, low, high, mcnemar(only_first, only_second))


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's exact test, two-sided; beyond 10,000 discordant examples the normal approximation."""
    discordant, fewer = only_first + only_second, min(only_first, only_second)
    if discordant > EXACT_MCNEMAR:
        return min(1.0, erfc((abs(only_first - only_second) - 1) / sqrt(2 * discordant)))
    ways, term = 0, 1
    for heads in range(fewer + 1):
        ways += term
        term = term * (discordant - heads) // (heads + 1)
    return min(1.0, 2 * ways / (1 << discordant))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# Replies, split into words


def bleu2(outputs: Texts, references: Texts) -> float:
    """Corpus BLEU-2, from 0 to 100."""
    _check_texts(outputs, references)
    pairs = list(zip(outputs, references, strict=True))
    words, reference_words = (sum(map(len, texts)) for texts in (outputs, references))
    precision = 1.0
    for order in (1, 2):
        matches = sum((Counter(_ngrams(a, order)) & Counter(_ngrams(b, order))).total() for a, b in pairs)
        if not matches:
            return 0.0
        precision *= matches / sum(max(0, len(output) - order + 1) for output in outputs)
    return 100 * exp(min(0.0, 1 - reference_words / words)) * sqrt(precision)


def distinct(outputs: Texts, order: int) -> float:
    """Distinct-n: the share of different n-grams among all; it falls with the number of outputs."""
    found = [ngram for words in outputs for ngram in _ngrams(words, order)]
    return len(set(found)) / len(found) if found else 0.0


def w2v_similarity(outputs: Texts, references: Texts, vectors: Vectors) -> float:
    """W2V-Sim: the mean cosine of the mean word vectors of outputs and references; 0 where no word has a vector."""
    _check_texts(outputs, references)
    pairs = zip(outputs, references, strict=True)
    return fmean(_cosine(_mean_vector(a, vectors.rows), _mean_vector(b, vectors.rows)) for a, b in pairs)


def _ngrams(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(order)), strict=False)


def _mean_vector(words: Sequence[str], rows: Mapping[str, NDArray[np.float32]]) -> Vector | None:
    known = [rows[word] for word in words if word in rows]
    return np.mean(known, axis=0, dtype=np.float64) if known else None


def _cosine(a: Vector | None, b: Vector | None) -> float:
    if a is None or b is None:
        return 0.0
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths > 0 else 0.0


def _check_texts(outputs: Texts, references: Texts) -> None:
    if len(outputs) != len(references) or not outputs:
        raise DataError(f"replies are compared with as many references: {len(outputs):,} and {len(references):,}")
