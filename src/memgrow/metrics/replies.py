"""Measures of replies: BLEU-2, distinct-n, perplexity and W2V-Sim. Texts come as words that somebody else has split.

BLEU-2 is the paper's: the geometric mean of unigram and bigram precision, penalised by length. Over a whole test set,
with c words in all outputs and r in all references,

    BLEU-2 = 100 x min(1, exp(1 - r / c)) x sqrt(p1 x p2),

where p1 is the share of the outputs' words, and p2 that of their pairs of neighbouring words, which the reference of
the same example has too, each counted at most as often as it is there. Nothing is smoothed: without a single common
pair of words the score is 0. It is what sacrebleu gives with orders 1 and 2, no smoothing and no tokeniser.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrow.data.vectors import Vectors
from memgrow.errors import DataError

Texts = Sequence[Sequence[str]]  # the words of each text
Counts = NDArray[np.int64]
Row = NDArray[np.float32]

ORDERS = (1, 2)  # words, and pairs of neighbouring words


@dataclass(frozen=True, eq=False)
class BleuCounts:
    """The counts of each example, from which BLEU-2 of any set of examples follows."""

    matches: Counts  # (examples, 2): words, and pairs of words, that the reference has too
    totals: Counts  # (examples, 2): words, and pairs of words
    references: Counts  # (examples,): words of the reference

    def score(self) -> float:
        """BLEU-2 of all examples together, from 0 to 100."""
        return float(self.scores(np.ones((1, len(self.references))))[0])

    def scores(self, weights: ArrayLike) -> NDArray[np.float64]:  # (sets,)
        """BLEU-2 of each set of a bootstrap.

        The weights, (sets, examples), say how often each example is in each set, or with what share.
        """
        times = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        matches, totals, words = times @ self.matches, times @ self.totals, times @ self.references
        output = totals[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            precisions = np.where(matches > 0, matches / totals, 0.0)  # (sets, 2)
            penalty = np.where(output > 0, np.exp(np.minimum(0.0, 1 - words / output)), 0.0)
        found: NDArray[np.float64] = 100 * penalty * np.sqrt(precisions.prod(axis=1))
        return found


def bleu2_counts(outputs: Texts, references: Texts) -> BleuCounts:
    """Count the matches of each output, given as words, with the reference of its example."""
    check_texts(outputs, references)
    pairs = list(zip(outputs, references, strict=True))
    return BleuCounts(
        matches=np.array([[_matches(output, reference, n) for n in ORDERS] for output, reference in pairs]),
        totals=np.array([[max(0, len(output) - n + 1) for n in ORDERS] for output in outputs]),
        references=np.array([len(reference) for reference in references]),
    )


def _matches(output: Sequence[str], reference: Sequence[str], order: int) -> int:
    return (Counter(ngrams(output, order)) & Counter(ngrams(reference, order))).total()


def distinct(outputs: Texts, order: int) -> float:
    """Distinct-n: the share of different n-grams among all n-grams of the outputs; 0 if there are none.

    It falls as there are more outputs: compare sets of one size.
    """
    check_words(outputs)
    found = [ngram for words in outputs for ngram in ngrams(words, order)]
    return len(set(found)) / len(found) if found else 0.0


def perplexity(losses: ArrayLike, tokens: ArrayLike) -> float:
    """Perplexity from the negative log-likelihood (in nats) and the number of tokens, of all replies or of each.

    The mark that ends a reply is a token like any other. Beyond what a float holds the perplexity is infinite.
    """
    loss, count = float(np.sum(losses, dtype=np.float64)), float(np.sum(tokens, dtype=np.float64))
    if np.shape(losses) != np.shape(tokens) or count <= 0 or not loss >= 0:
        raise DataError(
            f"no perplexity follows from a loss of {loss:g} over {count:g} tokens; give losses of 0 or more, "
            "with as many counts, of at least one token"
        )
    with np.errstate(over="ignore"):
        return float(np.exp(loss / count))


@dataclass(frozen=True, eq=False)
class Similarity:
    """The mean over examples, from -1 to 1, each example's own, and how much of the text had a vector."""

    mean: float
    each: NDArray[np.float64]  # (examples,)
    output_coverage: float  # share of the outputs' words, from 0 to 1
    reference_coverage: float

    def to_json(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "output_coverage": self.output_coverage,
            "reference_coverage": self.reference_coverage,
        }


def words_to_look_up(*sides: Texts) -> list[str]:
    """The different words of all texts, to read their vectors with `text.read_vectors`."""
    return list(dict.fromkeys(word for texts in sides for text in texts for word in text))


def w2v_similarity(outputs: Texts, references: Texts, vectors: Vectors) -> Similarity:
    """The cosine of the averaged word vectors of each output, given as words, and the reference of its example.

    Words without a vector are left out. Where no word of an output or of a reference has one, the similarity is 0.
    """
    check_texts(outputs, references)
    each = np.array(
        [
            _cosine(_average(output, vectors.rows), _average(reference, vectors.rows))
            for output, reference in zip(outputs, references, strict=True)
        ]
    )
    return Similarity(
        mean=float(each.mean()),
        each=each,
        output_coverage=_coverage(outputs, vectors.rows),
        reference_coverage=_coverage(references, vectors.rows),
    )


def _average(words: Sequence[str], rows: Mapping[str, Row]) -> NDArray[np.float64] | None:
    known = [rows[word] for word in words if word in rows]
    return np.mean(known, axis=0, dtype=np.float64) if known else None


def _cosine(a: NDArray[np.float64] | None, b: NDArray[np.float64] | None) -> float:
    if a is None or b is None:
        return 0.0
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths > 0 else 0.0


def _coverage(texts: Iterable[Sequence[str]], rows: Mapping[str, Row]) -> float:
    words = [word in rows for text in texts for word in text]
    return sum(words) / len(words) if words else 0.0


def check_texts(outputs: Texts, references: Texts) -> None:
    """Refuse texts that cannot be compared: as many outputs as references are needed, at least one, each in words."""
    if len(outputs) != len(references):
        raise DataError(f"{len(outputs):,} outputs cannot be set beside {len(references):,} references; give as many")
    check_words(outputs)
    check_words(references)


def check_words(texts: Texts) -> None:
    """Refuse an empty set of texts, and texts that are not split into words."""
    if not texts:
        raise DataError("there is no text to measure; give at least one")
    if any(isinstance(text, str) for text in texts):
        raise DataError("a text to measure must be a list of words, not a string; split it first")


def ngrams(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    """All runs of `order` neighbouring words; none where there are fewer words."""
    return zip(*(words[start:] for start in range(order)), strict=False)
