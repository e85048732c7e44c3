"""Attention to memory slots: by word of a text, by bank, and over the test texts of each domain."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from memgrow.data import Domain, Example
from memgrow.data.batches import Batch, by_tokens, collate
from memgrow.data.splits import fair_slice
from memgrow.learner import Answer, Learner
from memgrow.models import Responder

MAX_TEXTS = 500  # of a domain: shares are then known to about a percent
MAX_WEIGHTS = 2**24  # of slots in memory at a time
Banks = Sequence[Mapping[str, Tensor]]  # by bank and domain: attention (texts, words)


# One text


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
    shares = learner.responder().eval().attention_shares(batch.words, batch.lengths, words, lengths)
    return list(shares.encoder), list(shares.decoder)


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


# The test texts of each domain


@dataclass(frozen=True)
class MemoryUse:
    """The attention that texts of each domain give to slots of each domain, averaged over banks. Holds no text."""

    texts: Mapping[str, int]  # by domain: how many were read
    slots: Mapping[str, int]  # by domain: in each bank, on average
    shares: Mapping[str, Mapping[str, float]]  # by the texts' domain, then by the slots'
    apart: bool = False  # one query per domain, as in a pretrained encoder: shares need not add up to 1

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "MemoryUse":
        """Read it; files of 0.2 also list the slots that are read most."""
        return cls(**{name: part for name, part in value.items() if name != "most_read"})


@torch.no_grad()
def measure_attention(learner: Learner, domains: Iterable[Domain], texts: int = MAX_TEXTS) -> MemoryUse | None:
    """Read at most `texts` test examples of each domain; None without slots or texts."""
    banks = [bank for bank in learner.trained().banks if len(bank)]
    chosen = {domain.name: fair_slice(domain.test, texts) for domain in domains if domain.test}
    if not banks or not chosen:
        return None
    owners = dict.fromkeys(name for bank in banks for name in bank.domains)
    sizes = [bank.share(torch.ones(len(bank))) for bank in banks]
    shares = {}
    for name, some in chosen.items():
        found = [bank.share(mean) for bank, mean in zip(banks, _mean_weights(learner, some), strict=True)]
        shares[name] = {owner: _mean_of(owner, found) for owner in owners}
    return MemoryUse(
        texts={name: len(some) for name, some in chosen.items()},
        slots={owner: round(_mean_of(owner, sizes)) for owner in owners},
        shares=shares,
        apart=learner.settings.is_pretrained,
    )


def _mean_of(owner: str, banks: Sequence[Mapping[str, Tensor]]) -> float:
    return fmean(float(bank[owner]) if owner in bank else 0.0 for bank in banks)


def _mean_weights(learner: Learner, examples: Sequence[Example]) -> list[Tensor]:
    """For each bank with slots: the mean weight of each slot over all words, (slots)."""
    data = learner.encode(examples, unknown_labels=True)
    largest = max(len(bank) for bank in learner.trained().banks)
    sums, words = list[list[Tensor]](), 0
    for indices in by_tokens(data, MAX_WEIGHTS // largest):
        batch = collate(data, indices, learner.device)
        sums.append([one.double().sum((0, 1)).cpu() for one in _weights(learner, batch) if one.shape[-1]])
        words += int(batch.lengths.sum())
    totals = [torch.stack(one).sum(0) for one in zip(*sums, strict=True)]
    # With one query per domain each domain gets up to 1 of a word; otherwise all domains share 1.
    return [total / (words if learner.settings.is_pretrained else total.sum()) for total in totals]


def _weights(learner: Learner, batch: Batch) -> list[Tensor]:
    model = learner.trained().eval()
    if not isinstance(model, Responder):
        return model.encoder.attention(batch.words, batch.lengths)
    (words, replies), (lengths, ends) = batch.words.chunk(2), batch.lengths.chunk(2)
    return model.attention(words, lengths, replies, ends)
