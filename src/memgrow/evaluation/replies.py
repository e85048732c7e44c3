"""The quality of generated replies: perplexity, BLEU-2, distinct words and similarity by word vectors.

BLEU-2 is the paper's, over a whole test set and without smoothing: with c words in all outputs and r in all references,
100 x min(1, exp(1 - r / c)) x sqrt(p1 x p2), where p1 and p2 are the clipped unigram and bigram precisions. It equals
sacrebleu with orders 1 and 2, no smoothing and no tokenizer.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import exp, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from memgrow.data import Domain
from memgrow.data.disk import finite
from memgrow.data.text import tokenize
from memgrow.data.vectors import Vectors, read_vectors
from memgrow.errors import DataError
from memgrow.evaluation.history import perplexity_of
from memgrow.learner import Learner

Texts = Sequence[Sequence[str]]  # the words of each text


@dataclass(frozen=True)
class ReplyFigures:
    """The quality of the replies to one part of a domain."""

    examples: int
    perplexity: float
    bleu2: float
    distinct1: float
    distinct2: float
    length: float  # words in a reply, on average
    w2v_similarity: float | None = None

    def known(self) -> dict[str, float]:
        """The figures that were measured, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Null is an infinite perplexity."""
        plain: dict[str, Any] = finite(self.known())
        return plain


def evaluate_replies(
    learner: Learner, domain: Domain, *, split: str = "test", beam: int = 1, vectors: Path | None = None
) -> ReplyFigures:
    """Reply to the messages of one part of a domain and score the replies against those of the data."""
    examples = getattr(domain, split)
    if not examples:
        raise DataError(f"{domain.name} has no {split} examples to evaluate on")
    replies = [tokenize(answer.text) for answer in learner.reply(examples, beam=beam)]
    given = [tokenize(example.reply or "") for example in examples]
    similarity = None
    if vectors is not None:
        words = dict.fromkeys(word for text in (*replies, *given) for word in text)
        similarity = w2v_similarity(replies, given, read_vectors(vectors, list(words)))
    return ReplyFigures(
        examples=len(examples),
        perplexity=perplexity_of(learner.evaluate(domain, split)[domain.name]),
        bleu2=bleu2(replies, given),
        distinct1=distinct(replies, 1),
        distinct2=distinct(replies, 2),
        length=fmean(map(len, replies)),
        w2v_similarity=similarity,
    )


def bleu2(outputs: Texts, references: Texts) -> float:
    """Corpus BLEU-2, from 0 to 100."""
    words, wanted = sum(map(len, outputs)), sum(map(len, references))
    precisions = []
    for order in (1, 2):
        found = [Counter(_ngrams(words, order)) for words in outputs]
        expected = [Counter(_ngrams(words, order)) for words in references]
        matches = sum((a & b).total() for a, b in zip(found, expected, strict=True))
        precisions.append(matches / max(1, sum(one.total() for one in found)))
    return 100 * exp(min(0.0, 1 - wanted / words)) * sqrt(precisions[0] * precisions[1]) if words else 0.0


def distinct(outputs: Texts, order: int) -> float:
    """Distinct-n: the share of different n-grams among all; it falls with the number of outputs."""
    found = [ngram for words in outputs for ngram in _ngrams(words, order)]
    return len(set(found)) / len(found) if found else 0.0


def w2v_similarity(outputs: Texts, references: Texts, vectors: Vectors) -> float:
    """The mean cosine of the mean word vectors of each output and its reference; 0 where no word has a vector."""

    def direction(words: Sequence[str]) -> Any:
        known = [vectors.rows[word] for word in words if word in vectors.rows]
        mean = np.mean(known, axis=0, dtype=np.float64) if known else np.zeros(1)
        length = float(np.linalg.norm(mean))
        return mean / length if length > 0 else np.zeros(1)

    pairs = zip(map(direction, outputs), map(direction, references), strict=True)
    return fmean(float((a * b).sum()) for a, b in pairs)


def _ngrams(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(order)), strict=False)
