"""Attention to memory slots: by word of a text, by bank, and over the test texts of each domain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memgrow.data import Example
from memgrow.data.batches import collate
from memgrow.learner import Answer, Learner

Banks = Sequence[Mapping[str, Tensor]]  # by bank and domain: attention (texts, words)


@dataclass(frozen=True)
class ReadWord:
    """A word or word piece; `text` is the index of its text in the example."""

    word: str
    text: int
    shares: tuple[float, ...]  # of attention, by domain; the mean of all banks


@dataclass(frozen=True)
class Reading:
    """The words of an example, and the domains whose slots they read: none in a model without slots."""

    domains: tuple[str, ...]
    words: tuple[ReadWord, ...]


def read_words(learner: Learner, example: Example) -> Reading:
    """How each word's attention divides among the domains' slots; with an encoder each share is out of 1."""
    return _reading([(learner.tokens(example), learner.attention(example))])


@torch.no_grad()
def read_reply(learner: Learner, message: Example, answer: Answer) -> Reading:
    """The same for a message (text 0), in the encoder's banks, and the reply to it (text 1), in the decoder's."""
    if not learner.trained().banks:
        return Reading((), ())
    batch = collate(learner.encode([Example(message.text)], labeled=False), [0], learner.device)
    words, lengths = torch.tensor([answer.words or (0,)], device=learner.device), torch.tensor([len(answer.words)])
    encoder, decoder = learner.responder().eval().attention_shares(batch.words, batch.lengths, words, lengths)
    said = [learner.vocabulary.words[word] for word in answer.words]
    return _reading([(learner.tokens(Example(message.text)), encoder), ([said], decoder)])


def _reading(parts: Sequence[tuple[Sequence[Sequence[str]], Banks]]) -> Reading:
    domains = tuple(dict.fromkeys(domain for _, banks in parts for bank in banks for domain in bank))
    words, first = list[ReadWord](), 0
    for texts, banks in parts:
        for row, text in enumerate(texts):
            for place, word in enumerate(text):  # a bank of a later column has no slots of earlier domains
                found = [sum(float(bank[name][row, place]) for bank in banks if name in bank) for name in domains]
                words.append(ReadWord(word, first + row, tuple(total / len(banks) for total in found)))
        first += len(texts)
    return Reading(domains, tuple(words))


def attention_by_bank(learner: Learner, example: Example) -> list[dict[str, float]]:
    """For each bank, the share of attention that each domain's slots get from a text."""
    found = []
    for bank in learner.attention(example):
        read = {domain: float(share.sum()) for domain, share in bank.items()}
        # A pretrained encoder has one query per domain, so that shares are out of all pieces.
        whole = sum(map(len, learner.tokens(example))) if learner.settings.is_pretrained else sum(read.values()) or 1
        found.append({domain: amount / whole for domain, amount in read.items()})
    return found


def unknown_words(learner: Learner, example: Example) -> list[str]:
    """Words of a text that are not in the model's vocabulary; none for word pieces."""
    if learner.settings.is_pretrained:
        return []
    words = (word for row in learner.tokens(example) for word in row)
    return list(dict.fromkeys(word for word in words if word not in learner.vocabulary))
