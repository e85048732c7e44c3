"""What a learner that has learnt replies answers to messages, and how good its answers are."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from memgrow.data import Domain, Example
from memgrow.data.batches import by_length, collate
from memgrow.errors import DataError, ModelError
from memgrow.learner import Learner
from memgrow.metrics.replies import bleu2_counts, distinct, w2v_similarity, words_to_look_up
from memgrow.models import Responder
from memgrow.models.decoding import decode
from memgrow.seeding import derive
from memgrow.text import read_vectors, tokenise

AT_ONCE = 128  # messages that are answered together
ON_A_GPU = 512  # there a step takes about as long for many as for few
LONGEST = 40  # words of a reply; a longer one is cut


@dataclass(frozen=True)
class Answer:
    """A reply in words."""

    text: str
    ended: bool  # False: it was cut
    score: float  # its log-probability, as the search counts it
    words: tuple[int, ...]


@dataclass(frozen=True)
class ReplyFigures:
    """How good the replies to a domain's test messages are."""

    examples: int
    perplexity: float
    bleu2: float
    distinct1: float
    distinct2: float
    length: float
    w2v_similarity: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def replies(
    learner: Learner,
    messages: Sequence[str | Example],
    *,
    beam: int = 1,
    temperature: float | None = None,
    max_words: int = LONGEST,
    seed: int = 0,
) -> list[Answer]:
    """A reply to each message: the most probable one that a search with so many beams finds, or one that is drawn."""
    model = _responder(learner)
    asked = [message if isinstance(message, Example) else Example(message) for message in messages]
    data = learner.encode([Example(example.text, where=example.where) for example in asked], labelled=False)
    generator = torch.Generator(learner.device).manual_seed(derive(seed, "replies"))
    answers: dict[int, Answer] = {}
    for indices in by_length(data, ON_A_GPU if learner.device.type == "cuda" else AT_ONCE):
        batch = collate(data, indices, learner.device)
        found = decode(
            model,
            batch.words,
            batch.lengths,
            beam=beam,
            temperature=temperature,
            max_words=max_words,
            generator=generator,
        )
        for index, reply in zip(indices, found, strict=True):
            said = " ".join(learner.vocabulary.words[word] for word in reply.words)
            answers[index] = Answer(said, reply.ended, reply.score, reply.words)
    return [answers[index] for index in range(len(asked))]


def evaluate_replies(
    learner: Learner, domain: Domain, *, split: str = "test", beam: int = 1, vectors: Path | None = None
) -> ReplyFigures:
    """Answer one part of a domain and hold the answers against the replies given."""
    examples = getattr(domain, split)
    if not examples:
        raise DataError(f"{domain.name} has no {split} examples to evaluate on")
    score = learner.evaluate(domain, split)[domain.name]
    said = [tokenise(answer.text) for answer in replies(learner, examples, beam=beam)]
    given = [tokenise(example.reply or "") for example in examples]
    similar = None
    if vectors is not None:
        similar = w2v_similarity(said, given, read_vectors(vectors, words_to_look_up(said, given))).mean
    return ReplyFigures(
        examples=len(examples),
        perplexity=1 / score,
        bleu2=bleu2_counts(said, given).score(),
        distinct1=distinct(said, 1),
        distinct2=distinct(said, 2),
        length=fmean(map(len, said)),
        w2v_similarity=similar,
    )


@torch.no_grad()
def whose_slots(learner: Learner, message: str, answer: Answer) -> dict[str, float]:
    """How the attention that message and reply pay to the memory divides among the domains' slots."""
    model = _responder(learner).eval()
    data = learner.encode([Example(message)], labelled=False)
    batch = collate(data, [0], learner.device)
    words, lengths = _as_rows(answer.words, learner.device)
    shares = model.reading(batch.words, batch.lengths, words, lengths)
    totals: dict[str, float] = {}
    for bank in (*shares.encoder, *shares.decoder):
        for domain, share in bank.items():
            totals[domain] = totals.get(domain, 0.0) + float(share.sum())
    whole = sum(totals.values())
    return {domain: total / whole for domain, total in totals.items()} if whole else {}


def _as_rows(words: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
    row = torch.tensor([list(words) or [0]], device=device)
    return row, torch.tensor([len(words)])


def _responder(learner: Learner) -> Responder:
    model = learner.trained()
    if not isinstance(model, Responder):
        raise ModelError("this model answers with labels, not with words: it has learnt no replies")
    return model
