"""Attention to memory slots: by word of a text, by bank, and over the test texts of each domain."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from memgrow.data import Domain, Example
from memgrow.data.batches import Batch, by_tokens, collate
from memgrow.data.splits import fair_slice
from memgrow.learner import Answer, Learner
from memgrow.models import PretrainedEncoder, Responder

MAX_TEXTS = 500  # of a domain: shares are then known to about a percent
MAX_WEIGHTS = 2**24  # of slots in memory at a time


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
    """How each word's attention divides among the domains' slots.

    In a recurrent model the shares of a word add up to 1. A pretrained encoder has one query per domain: there a share
    is what the domain's slots get, out of 1.
    """
    return _reading(learner.tokens(example), learner.attention(example))


def read_reply(learner: Learner, message: Example, answer: Answer) -> Reading:
    """The same for a message (text 0) and the reply to it (text 1)."""
    asked = Example(message.text)
    encoder, decoder = _reply_attention(learner, asked, answer)
    read = _reading(learner.tokens(asked), encoder)
    words = [[learner.vocabulary.words[word] for word in answer.words]]
    said = _reading(words, decoder, first=1, domains=read.domains)
    return Reading(read.domains, (*read.words, *said.words))


def _reading(
    texts: Sequence[Sequence[str]],
    banks: Sequence[Mapping[str, Tensor]],  # by domain: (texts, words)
    *,
    first: int = 0,
    domains: Sequence[str] | None = None,
) -> Reading:
    if domains is None:
        domains = tuple(dict.fromkeys(domain for bank in banks for domain in bank))
    if not domains:
        return Reading((), tuple(ReadWord(word, first + row, ()) for row, text in enumerate(texts) for word in text))
    zeros = torch.zeros_like(next(iter(next(bank for bank in banks if bank).values())))
    # A bank of a later column has no slots of earlier domains.
    totals = [sum((bank.get(name, zeros) for bank in banks), zeros) for name in domains]
    shares = (torch.stack(totals, -1) / len(banks)).tolist()  # (texts, words, domains)
    words = (
        ReadWord(word, first + row, tuple(shares[row][place]))
        for row, text in enumerate(texts)
        for place, word in enumerate(text)
    )
    return Reading(tuple(domains), tuple(words))


@torch.no_grad()
def _reply_attention(
    learner: Learner, message: Example, answer: Answer
) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]:
    """The attention of a message in the encoder's banks, and of its reply in the decoder's."""
    batch = collate(learner.encode([message], labeled=False), [0], learner.device)
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


def additions_by_bank(learner: Learner, example: Example) -> list[dict[str, float]]:
    """For each bank of a pretrained encoder, how much a domain's slots add to a state, relative to its length."""
    encoder = learner.trained().eval().encoder
    if not isinstance(encoder, PretrainedEncoder):
        return []
    batch = collate(learner.encode([example], labeled=False), [0], learner.device)
    return encoder.additions(batch.words, batch.lengths)


def reply_attention(learner: Learner, message: str, answer: Answer) -> dict[str, float]:
    """How the attention of a message and its reply divides among the domains' slots."""
    totals: dict[str, float] = {}
    for banks in _reply_attention(learner, Example(message), answer):
        for bank in banks:
            for domain, share in bank.items():
                totals[domain] = totals.get(domain, 0.0) + float(share.sum())
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

    @property
    def even(self) -> dict[str, float]:
        """The share of each domain's slots if all slots were read alike."""
        whole = sum(self.slots.values()) or 1
        return {name: count / whole for name, count in self.slots.items()}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "MemoryUse":
        """Read it; files of 0.2 also list the slots that are read most."""
        return cls(**{name: part for name, part in value.items() if name != "most_read"})


def measure_attention(learner: Learner, domains: Iterable[Domain], texts: int = MAX_TEXTS) -> MemoryUse | None:
    """Read at most `texts` test examples of each domain; None without slots or texts."""
    banks = [bank for bank in learner.trained().banks if len(bank)]
    chosen = {domain.name: fair_slice(domain.test, texts) for domain in domains if domain.test}
    read = {name: _mean_weights(learner, some) for name, some in chosen.items()}
    if not banks or not read or not all(read.values()):
        return None
    owners = dict.fromkeys(name for bank in banks for name in bank.domains)
    sizes = [bank.share(torch.ones(len(bank))) for bank in banks]
    shared = {name: [bank.share(each) for bank, each in zip(banks, read[name], strict=True)] for name in read}
    return MemoryUse(
        texts={name: len(some) for name, some in chosen.items()},
        slots={owner: round(_mean_of(owner, sizes)) for owner in owners},
        shares={name: {owner: _mean_of(owner, found) for owner in owners} for name, found in shared.items()},
        apart=learner.settings.is_pretrained,
    )


def _mean_of(owner: str, banks: Sequence[Mapping[str, Tensor]]) -> float:
    return fmean(float(bank[owner]) if owner in bank else 0.0 for bank in banks)


@torch.no_grad()
def _mean_weights(learner: Learner, examples: Sequence[Example]) -> list[Tensor]:
    """For each bank with slots: the mean weight of each slot over all words, (slots)."""
    data = learner.encode(examples, unknown_labels=True)
    largest = max((len(bank) for bank in learner.trained().banks), default=1)
    totals: list[Tensor] = []
    words: list[float] = []
    for indices in by_tokens(data, MAX_WEIGHTS // max(1, largest)):
        batch = collate(data, indices, learner.device)
        found = [weights for weights in _weights(learner, batch) if weights.shape[-1]]
        totals = totals or [torch.zeros(weights.shape[-1], dtype=torch.float64) for weights in found]
        words = words or [0.0] * len(found)
        for at, weights in enumerate(found):
            sums = weights.double().sum((0, 1)).cpu()
            totals[at] += sums
            # With one query per domain each domain gets up to 1 of a word; otherwise all domains share 1.
            words[at] += float(batch.lengths.sum() if learner.settings.is_pretrained else sums.sum())
    return [total / count for total, count in zip(totals, words, strict=True)]


def _weights(learner: Learner, batch: Batch) -> list[Tensor]:
    model = learner.trained().eval()
    if not isinstance(model, Responder):
        return model.encoder.attention(batch.words, batch.lengths)
    (words, replies), (lengths, ends) = batch.words.chunk(2), batch.lengths.chunk(2)
    return model.attention(words, lengths, replies, ends)
