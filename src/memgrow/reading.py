"""Whose slots each word of a text reads: the shares of attention by word and domain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memgrow.data import Example
from memgrow.data.batches import collate
from memgrow.learner import Answer, Learner

Bank = Mapping[str, Tensor]  # by domain: the shares that its slots get, (texts, words)


@dataclass(frozen=True)
class ReadWord:
    """A word, or a piece of one, as the model reads it; `text` counts the texts of an example from 0."""

    word: str
    text: int
    shares: tuple[float, ...]  # of attention, in the order of the domains; the mean of all banks


@dataclass(frozen=True)
class Reading:
    """The words of an example, and the domains whose slots they can read: none in a model without slots."""

    domains: tuple[str, ...]
    words: tuple[ReadWord, ...]


def read_words(learner: Learner, example: Example) -> Reading:
    """Whose slots each word reads.

    In a recurrent model the shares of a word add up to 1. In a pretrained encoder each domain has a query of its own:
    there a share is what its slots get, out of 1, beside nothing.
    """
    return _reading(learner.tokens(example), learner.reading(example))


@torch.no_grad()
def read_reply(learner: Learner, message: Example, answer: Answer) -> Reading:
    """The same for a message and the reply to it, which is text 1."""
    model = learner.responder().eval()
    asked = Example(message.text)
    batch = collate(learner.encode([asked], labelled=False), [0], learner.device)
    words = torch.tensor([answer.words or (0,)], device=learner.device)
    shares = model.reading(batch.words, batch.lengths, words, torch.tensor([len(answer.words)]))
    told, known = _reading(learner.tokens(asked), shares.encoder), learner.vocabulary.words
    said = _reading([[known[word] for word in answer.words]], shares.decoder, first=1, domains=told.domains)
    return Reading(told.domains, (*told.words, *said.words))


def _reading(
    texts: Sequence[Sequence[str]], banks: Sequence[Bank], first: int = 0, domains: Sequence[str] | None = None
) -> Reading:
    if domains is None:
        domains = tuple(dict.fromkeys(domain for bank in banks for domain in bank))
    if not domains:
        return Reading((), tuple(ReadWord(word, first + row, ()) for row, text in enumerate(texts) for word in text))
    like = next(iter(next(bank for bank in banks if bank).values()))
    # A column that came later has no slots of earlier domains: they get nothing of its attention.
    shares = [
        sum((bank.get(name, torch.zeros_like(like)) for bank in banks), torch.zeros_like(like)) for name in domains
    ]
    table = (torch.stack(shares, -1) / len(banks)).tolist()  # (texts, words, domains)
    return Reading(
        tuple(domains),
        tuple(
            ReadWord(word, first + row, tuple(table[row][place]))
            for row, text in enumerate(texts)
            for place, word in enumerate(text)
        ),
    )
