"""W2V-Sim: how near an output's words are to its reference's, as the cosine of their averaged word vectors."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrow.errors import DataError, SettingsError
from memgrow.text.vectors import Vectors

Texts = Sequence[Sequence[str]]  # the words of each text


def check_texts(outputs: Texts, references: Texts) -> None:
    """As many outputs as references, at least one, and each in words."""
    if len(outputs) != len(references):
        raise DataError(f"{len(outputs):,} outputs cannot be set beside {len(references):,} references; give as many")
    check_words(outputs)
    check_words(references)


def check_words(texts: Texts) -> None:
    if not texts:
        raise DataError("there is no text to measure; give at least one")
    if any(isinstance(text, str) for text in texts):
        raise DataError("a text to measure must be a list of words, not a string; split it first")


def ngrams(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    """So many neighbouring words each; none where there are fewer."""
    return zip(*(words[start:] for start in range(order)), strict=False)


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


@dataclass(frozen=True)
class Diversity:
    """Shares from 0 to 1 of different words, and pairs of words, among all; and words in a reply."""

    distinct_1: float
    distinct_2: float
    mean_length: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def diversity(outputs: Texts) -> Diversity:
    """Of all outputs together, given as words. It falls as there are more of them: compare sets of one size."""
    check_words(outputs)
    return Diversity(distinct(outputs, 1), distinct(outputs, 2), fmean(len(words) for words in outputs))


def distinct(outputs: Texts, order: int) -> float:
    """Different runs of so many words, as a share of all such runs within outputs; 0 if there are none."""
    runs = [run for words in outputs for run in ngrams(words, order)]
    return len(set(runs)) / len(runs) if runs else 0.0


def perplexity(losses: ArrayLike, tokens: ArrayLike) -> float:
    """From the summed negative log-likelihood (in nats) and the count of tokens, of all replies or of each.

    The mark that ends a reply is a token like any other. Beyond what a float holds it is infinite.
    """
    loss, count = float(np.sum(losses, dtype=np.float64)), float(np.sum(tokens, dtype=np.float64))
    if np.shape(losses) != np.shape(tokens) or count <= 0 or not loss >= 0:
        raise DataError(
            f"no perplexity follows from a loss of {loss:g} over {count:g} tokens; give losses of 0 or more, "
            "with as many counts, of at least one token"
        )
    with np.errstate(over="ignore"):
        return float(np.exp(loss / count))


Row = NDArray[np.float32]


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
    """Each output, given as words, against the reference of its example.

    Words without a vector are left out. An output or a reference without any word that has one, such as an empty
    output, is as similar as nothing: 0.
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
