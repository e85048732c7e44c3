"""The quality of generated replies: perplexity, BLEU-2, distinct words and similarity by word vectors."""

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from memgrow.data import Domain
from memgrow.data.disk import finite
from memgrow.data.text import tokenize
from memgrow.data.vectors import read_vectors
from memgrow.errors import DataError
from memgrow.evaluation.history import perplexity_of
from memgrow.evaluation.metrics import bleu2, distinct, w2v_similarity
from memgrow.learner import Learner


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
        similarity = w2v_similarity(replies, given, read_vectors(vectors, words))
    return ReplyFigures(
        examples=len(examples),
        perplexity=perplexity_of(learner.evaluate(domain, split)[domain.name]),
        bleu2=bleu2(replies, given),
        distinct1=distinct(replies, 1),
        distinct2=distinct(replies, 2),
        length=fmean(map(len, replies)),
        w2v_similarity=similarity,
    )
