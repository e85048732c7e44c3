"""BLEU-2 of replies, for a whole test set and from counts of each example, so that sets can be drawn anew.

The paper's definition: the geometric mean of unigram and bigram precision, penalised by length. Over a whole test set,
with c words in all outputs and r in all references,

    BLEU-2 = 100 x min(1, exp(1 - r / c)) x sqrt(p1 x p2),

where p1 is the share of the outputs' words, and p2 that of their pairs of neighbouring words, which the reference of
the same example has too, each counted at most as often as it is there. Nothing is smoothed: without a single common
pair of words the score is 0.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrow.errors import SettingsError
from memgrow.metrics.words import Texts, check_texts, ngrams

ORDERS = (1, 2)
SMOOTHING = "none"

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Bleu2:
    """The score from 0 to 100, what it is made of, and how others can have the same with sacrebleu."""

    score: float
    precisions: tuple[float, float]  # of words and of pairs of words, from 0 to 100
    brevity_penalty: float
    output_words: int
    reference_words: int
    max_order: int
    signature: str  # sacrebleu's, which does not say the order

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class BleuCounts:
    """What each example adds to the score of any set that it is in."""

    matches: Counts  # (examples, 2): words, and pairs of words, that the reference has too
    totals: Counts  # (examples, 2): words, and pairs of words
    references: Counts  # (examples,): words of the reference

    def score(self) -> float:
        """The score of all examples: that of `bleu2`, without sacrebleu."""
        return float(self.scores(np.ones((1, len(self.references))))[0])

    def scores(self, weights: ArrayLike) -> NDArray[np.float64]:  # (sets,)
        """The score of each set of a bootstrap, from how often each example is in it: (sets, examples).

        Shares of a set serve as well as whole numbers.
        """
        times = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        matches, totals, words = times @ self.matches, times @ self.totals, times @ self.references
        output = totals[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            precisions = np.where(matches > 0, matches / totals, 0.0)  # (sets, 2)
            penalty = np.where(output > 0, np.exp(np.minimum(0.0, 1 - words / output)), 0.0)
        found: NDArray[np.float64] = 100 * penalty * np.sqrt(precisions.prod(axis=1))
        return found


def bleu2(outputs: Texts, references: Texts) -> Bleu2:
    """The score of the outputs, given as words, each against the one reference of its example. Needs sacrebleu."""
    check_texts(outputs, references)
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise SettingsError("BLEU needs sacrebleu: install it with `pip install 'memgrow[dialogue]'`") from error
    # The words are there already, so sacrebleu is to split at spaces alone, and not to warn of that (`force`).
    metric = BLEU(
        max_ngram_order=max(ORDERS), tokenize="none", effective_order=False, smooth_method=SMOOTHING, force=True
    )
    found = metric.corpus_score([" ".join(one) for one in outputs], [[" ".join(one) for one in references]])
    return Bleu2(
        score=float(found.score),
        precisions=(float(found.precisions[0]), float(found.precisions[1])),
        brevity_penalty=float(found.bp),
        output_words=int(found.sys_len),
        reference_words=int(found.ref_len),
        max_order=max(ORDERS),
        signature=str(metric.get_signature()),
    )


def bleu2_counts(outputs: Texts, references: Texts) -> BleuCounts:
    """The counts of each example, from its output and its reference as words."""
    check_texts(outputs, references)
    pairs = list(zip(outputs, references, strict=True))
    return BleuCounts(
        matches=np.array([[_matches(output, reference, n) for n in ORDERS] for output, reference in pairs]),
        totals=np.array([[max(0, len(output) - n + 1) for n in ORDERS] for output in outputs]),
        references=np.array([len(reference) for reference in references]),
    )


def _matches(output: Sequence[str], reference: Sequence[str], order: int) -> int:
    return (Counter(ngrams(output, order)) & Counter(ngrams(reference, order))).total()
