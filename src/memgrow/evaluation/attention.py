"""Attention to memory slots: by word of a text, by bank, and over the test texts of each domain."""

from collections import Counter
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


def read_reply(learner: Learner, message: Example, answer: Answer) -> Reading:
    """The same for a message (text 0) and the reply to it (text 1)."""
    encoder, decoder = _reply_attention(learner, message.text, answer)
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


@torch.no_grad()
def _reply_attention(learner: Learner, message: str, answer: Answer) -> tuple[Banks, Banks]:
    """The attention of a message in the encoder's banks, and of its reply in the decoder's."""
    batch = collate(learner.encode([Example(message)], labeled=False), [0], learner.device)
    words = torch.tensor([answer.words or (0,)], device=learner.device)
    lengths = torch.tensor([len(answer.words)])
    return learner.responder().eval().attention_shares(batch.words, batch.lengths, words, lengths)


def attention_by_bank(learner: Learner, example: Example) -> list[dict[str, float]]:
    """For each bank, the share of attention that each domain's slots get from a text."""
    read = [{domain: float(share.sum()) for domain, share in shares.items()} for shares in learner.attention(example)]
    if learner.settings.is_pretrained:  # one query per domain
        pieces = sum(map(len, learner.tokens(example)))
        return [{domain: amount / pieces for domain, amount in bank.items()} for bank in read]
    return [{domain: amount / (sum(bank.values()) or 1) for domain, amount in bank.items()} for bank in read]


def reply_attention(learner: Learner, message: str, answer: Answer) -> dict[str, float]:
    """How the attention of a message and its reply divides among the domains' slots."""
    totals = Counter[str]()
    for banks in _reply_attention(learner, message, answer):
        for bank in banks:
            totals.update({domain: float(share.sum()) for domain, share in bank.items()})
    whole = sum(totals.values())
    return {domain: total / whole for domain, total in totals.items()} if whole else {}


def unknown_words(learner: Learner, example: Example) -> list[str]:
    """Words of a text that are not in the model's vocabulary; none for word pieces."""
    if learner.settings.is_pretrained:
        return []
    words = (word for row in learner.tokens(example) for word in row)
    return list(dict.fromkeys(word for word in words if word not in learner.vocabulary))
