"""How much attention the texts of each domain give to the slots of each domain, and which slots are read most."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from memgrow.data import Domain, Example
from memgrow.data.batches import Batch, by_tokens, collate
from memgrow.data.splits import fair_slice
from memgrow.learner import Learner
from memgrow.models import PretrainedEncoder, Responder

TEXTS = 500  # of a domain that are read, at most: shares are then known to about a percent
AT_ONCE = 2**24  # weights of slots in memory at a time, about
MOST_READ = 10


@dataclass(frozen=True)
class SlotUse:
    """A slot, and the share of its bank's attention that it gets from the texts of each domain."""

    bank: str
    slot: int  # counted from 1 in its bank
    domain: str
    even: float  # the share if all slots of the bank were read alike
    shares: Mapping[str, float]

    @property
    def mean(self) -> float:
        return fmean(self.shares.values())


@dataclass(frozen=True)
class MemoryUse:
    """The attention that texts give to slots, on the mean over banks. No text, and no word of one, is in it."""

    texts: Mapping[str, int]  # by domain: how many were read
    slots: Mapping[str, int]  # by domain: in each bank, on the mean
    shares: Mapping[str, Mapping[str, float]]  # by the texts' domain, then by the slots'
    most_read: tuple[SlotUse, ...] = ()
    apart: bool = False  # the domains' slots are asked apart, as in a pretrained encoder: shares need not add up to 1

    @property
    def even(self) -> dict[str, float]:
        """What the slots of each domain would get if all slots were read alike."""
        whole = sum(self.slots.values()) or 1
        return {name: count / whole for name, count in self.slots.items()}

    @property
    def darkest(self) -> float:
        """The share that has the strongest colour: twice an even one, or more if slots get more."""
        found = [share for shares in self.shares.values() for share in shares.values()]
        even = [] if self.apart else [2 * share for share in self.even.values()]
        return max([*found, *even], default=1.0) or 1.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "most_read": [asdict(one) for one in self.most_read]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "MemoryUse":
        return cls(**{**value, "most_read": tuple(SlotUse(**one) for one in value["most_read"])})


def measure_attention(learner: Learner, domains: Iterable[Domain], texts: int = TEXTS) -> MemoryUse | None:
    """Read the test examples of each domain, at most so many `texts`; None where no slots or no texts are known."""
    banks = [bank for bank in learner.trained().banks if len(bank)]
    chosen = {domain.name: fair_slice(domain.test, texts) for domain in domains if domain.test}
    read = {name: _read(learner, some) for name, some in chosen.items()}
    if not banks or not read or not all(read.values()):
        return None
    owners = dict.fromkeys(name for bank in banks for name in bank.domains)
    sizes = [bank.share(torch.ones(len(bank))) for bank in banks]
    shared = {name: [bank.share(each) for bank, each in zip(banks, read[name], strict=True)] for name in read}
    slots = [
        SlotUse(place, slot + 1, segment.domain, 1 / len(bank), {name: float(read[name][at][slot]) for name in read})
        for at, (place, bank) in enumerate(zip(_places(learner), banks, strict=True))
        for segment in bank.segments
        for slot in range(segment.start, segment.stop)
    ]
    return MemoryUse(
        texts={name: len(some) for name, some in chosen.items()},
        slots={owner: round(_mean_of(owner, sizes)) for owner in owners},
        shares={name: {owner: _mean_of(owner, found) for owner in owners} for name, found in shared.items()},
        most_read=tuple(sorted(slots, key=lambda one: -one.mean)[:MOST_READ]),
        apart=learner.settings.kind.is_pretrained,
    )


def _mean_of(owner: str, banks: Sequence[Mapping[str, Tensor]]) -> float:
    return fmean(float(bank[owner]) if owner in bank else 0.0 for bank in banks)


@torch.no_grad()
def _read(learner: Learner, examples: Sequence[Example]) -> list[Tensor]:
    """For each bank that has slots: the mean weight of each slot at a word of these texts, (slots)."""
    data = learner.encode(examples, strange=True)
    largest = max((len(bank) for bank in learner.trained().banks), default=1)
    totals: list[Tensor] = []
    places: list[float] = []
    for indices in by_tokens(data, AT_ONCE // max(1, largest)):
        batch = collate(data, indices, learner.device)
        found = [weights for weights in _weights(learner, batch) if weights.shape[-1]]
        totals = totals or [torch.zeros(weights.shape[-1], dtype=torch.float64) for weights in found]
        places = places or [0.0] * len(found)
        for at, weights in enumerate(found):
            sums = weights.double().sum((0, 1)).cpu()
            totals[at] += sums
            # Of what is asked apart each domain may have up to 1 of a word, and of the rest all have 1 together.
            places[at] += float(batch.lengths.sum() if learner.settings.kind.is_pretrained else sums.sum())
    return [total / count for total, count in zip(totals, places, strict=True)]


def _weights(learner: Learner, batch: Batch) -> list[Tensor]:
    model = learner.trained().eval()
    if not isinstance(model, Responder):
        return model.encoder.slot_weights(batch.words, batch.lengths)
    (words, replies), (lengths, ends) = batch.words.chunk(2), batch.lengths.chunk(2)
    return model.slot_weights(words, lengths, replies, ends)


def _places(learner: Learner) -> list[str]:
    """The banks that have slots, in words."""
    model = learner.trained()
    encoder = model.encoder
    if isinstance(encoder, PretrainedEncoder):
        return [f"layer {layer}" for layer, bank in zip(encoder.memory_layers, encoder.banks, strict=True) if len(bank)]
    names = [f"bank {number}" for number in range(1, len(encoder.banks) + 1)]
    if isinstance(model, Responder):
        names = [f"message, {name}" for name in names]
        names += [f"reply, bank {number}" for number in range(1, len(model.banks) - len(names) + 1)]
    return [name for name, bank in zip(names, model.banks, strict=True) if len(bank)]
