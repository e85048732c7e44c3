"""The quality of generated replies: perplexity, BLEU-2 and distinct words.

BLEU-2 is the paper's, over a whole test set and without smoothing: with c words in all outputs and r in all references,
100 x min(1, exp(1 - r / c)) x sqrt(p1 x p2), where p1 and p2 are the clipped unigram and bigram precisions. It equals
sacrebleu with orders 1 and 2, no smoothing and no tokenizer.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import exp, sqrt
from statistics import fmean
from typing import Any

from memgrow.data import Domain
from memgrow.data.disk import finite
from memgrow.data.text import tokenize
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

    def to_json(self) -> dict[str, Any]:
        """Null is an infinite perplexity."""
        return dict(finite(asdict(self)))


def evaluate_replies(learner: Learner, domain: Domain, *, beam: int = 1) -> ReplyFigures:
    """Reply to the test messages of a domain and score the replies against those of the data."""
    examples = domain.test
    if not examples:
        raise DataError(f"{domain.name} has no test examples to evaluate on")
    replies = [tokenize(answer.text) for answer in learner.reply(examples, beam=beam)]
    given = [tokenize(example.reply or "") for example in examples]
    return ReplyFigures(
        examples=len(examples),
        perplexity=perplexity_of(learner.evaluate(domain)[domain.name]),
        bleu2=bleu2(replies, given),
        distinct1=distinct(replies, 1),
        distinct2=distinct(replies, 2),
        length=fmean(map(len, replies)),
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


def _ngrams(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(order)), strict=False)
