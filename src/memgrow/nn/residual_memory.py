"""A memory in the residual stream of a Transformer: each domain's slots are read by a query network for that domain.

Nothing that is computed for one domain depends on another, and values start at zero: growing changes no bit of any
output, whatever was there before.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.nn.bank import Draw, GrowingModule, Growth, MemoryBank

SHARPNESS = 4.0  # the length of every key: with normalised queries the logits of random keys have this spread
NOISE = 0.1  # length of what is added to a start of unit length when a key begins where another one does


class QueryNetwork(GrowingModule):
    """A linear layer without bias for each segment of slots, (segments * key_size, width), which grows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(0, width))


class ResidualMemory(GrowingModule):
    """Adds to states (..., width) what the slots of each domain contribute to them.

    For each segment of slots: a normalised query of `key_size` numbers, the `best` slots by their key, and the sum of
    their values, weighted by a softmax over them and a logit of 0 that stands for nothing.
    """

    def __init__(
        self,
        width: int,
        *,
        key_size: int = 64,
        best: int = 16,
        slots: int = 0,
        domain: str | None = None,
    ) -> None:
        super().__init__()
        if width < 1 or key_size < 2 or best < 1:
            raise SettingsError(f"width and best must be at least 1 and key_size 2, not {width}, {best}, {key_size}")
        self.width, self.key_size, self.best = width, key_size, best
        self.query = QueryNetwork(width)
        self.bank = MemoryBank(key_size, width)
        if slots:
            self.grow(slots, domain)

    # Reading

    def forward(self, states: Tensor) -> Tensor:
        # What new slots add has to be 0.0 and is subtracted: -0.0 + 0.0 would be 0.0, another bit. It is 0.0 as no
        # factor is -0.0, in whatever order it is summed.
        positions, result = states.reshape(-1, self.width), states
        for number, segment in enumerate(self.bank.segments):
            values = 0.0 - self.bank.values[segment.start : segment.stop]
            weights = self._weights(positions, number).to(values)  # (positions, slots)
            result = result - (weights @ values).to(states).view_as(states)
        return result

    def weights(self, states: Tensor) -> Tensor:
        """The share of each slot in what its domain's slots add, (..., N); what a domain lacks to 1 went to nothing."""
        shares = [self._weights(states, number) for number in range(len(self.bank.segments))]
        return torch.cat([states.new_zeros(*states.shape[:-1], 0), *shares], dim=-1)

    def queries(self, states: Tensor, domain: str) -> Tensor:
        """The queries to the newest slots of a domain: (..., key_size)."""
        return self._query(states, self._newest(domain))

    # What follows depends on one segment's rows alone, in numbers and in the shapes of all operations.

    def _query(self, states: Tensor, number: int) -> Tensor:
        network = self.query.weight[number * self.key_size : (number + 1) * self.key_size]
        return F.layer_norm(F.linear(states, network), (self.key_size,))

    def _weights(self, states: Tensor, number: int) -> Tensor:
        segment = self.bank.segments[number]
        keys = F.normalize(self.bank.keys[segment.start : segment.stop], dim=-1) * SHARPNESS
        logits = F.linear(self._query(states, number), keys)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # bfloat16 is too coarse for a softmax
        if (bias := self.bank.logit_bias()) is not None:
            logits = logits + bias[segment.start : segment.stop]
        return _best_slots(logits, self.best)

    def _newest(self, domain: str) -> int:
        numbers = [n for n, segment in enumerate(self.bank.segments) if segment.domain == domain]
        if not numbers:
            known = ", ".join(self.bank.domains) or "none"
            raise SettingsError(f"the domain {domain!r} has no slots in this memory; domains with slots: {known}")
        return numbers[-1]

    # Growing

    def plan(
        self, growth: Growth, *, slots: int = 0, domain: str | None = None, initial_logit_bias: float = 0.0
    ) -> None:
        """Plan new slots and a query network that reads them, at the end of each parameter; outputs keep their bits."""
        if slots:
            rows = len(self.query.weight)
            draw = growth.uniform(1 / math.sqrt(self.width))
            growth.enlarge(self.query.weight, 0, [(rows, self.key_size)], draw)
        self.bank.plan(
            growth,
            slots=slots,
            domain=domain,
            initial_logit_bias=initial_logit_bias,
            draw_keys=lambda shape: F.normalize(growth.uniform(1)(shape), dim=-1),
            draw_values=torch.zeros,
        )

    @torch.no_grad()
    def start_keys(self, domain: str, queries: Tensor, generator: torch.Generator | None = None) -> None:
        """Set the keys of a domain's newest slots to a sample of `queries` (Q, key_size); if few, also close to them.

        Random numbers are drawn on the CPU.
        """
        if not len(queries):
            return
        segment = self.bank.segments[self._newest(domain)]
        slots = len(segment)
        rounds = [torch.randperm(len(queries), generator=generator) for _ in range(math.ceil(slots / len(queries)))]
        chosen = torch.cat(rounds)[:slots].to(queries.device)
        keys = F.normalize(queries[chosen].to(self.bank.keys), dim=-1)
        if slots > len(queries):
            noise = torch.randn(slots - len(queries), self.key_size, generator=generator)
            keys[len(queries) :] += noise.to(keys) * (NOISE / math.sqrt(self.key_size))
        self.bank.keys[segment.start : segment.stop] = F.normalize(keys, dim=-1)

    # In a saved model

    @property
    def growths(self) -> list[dict[str, Any]]:
        """The calls of `grow` that give a new memory the shape of this one, as JSON."""
        return [{"slots": len(one), "domain": one.domain, "quiet": float(one.biased)} for one in self.bank.segments]

    def restore(self, growths: Sequence[Mapping[str, Any]], draw: Draw = torch.zeros) -> None:
        """Take the shape of a memory with these `growths`, whose numbers are to be filled in."""
        if any(one.get("apart") for one in growths):
            raise SettingsError("this memory holds domains that were imported by memgrow 0.2, which cannot be read")
        growth = Growth()
        growth.enlarge(self.query.weight, 0, [(len(self.query.weight), self.key_size * len(growths))], draw)
        growth.commit()
        self.bank.restore([(one["domain"], one["slots"], bool(one["quiet"])) for one in growths], draw)

    def extra_repr(self) -> str:
        return f"{self.width}, best={self.best}"


def _best_slots(logits: Tensor, best: int) -> Tensor:
    """A softmax over the `best` largest logits and a logit of 0 for nothing; slots that tie with the last are read too.

    Dense, with a threshold from `topk`: no indices, so that shapes are fixed and the backward pass has no atomics.
    """
    slots = logits.shape[-1]
    if best < slots:
        last = logits.detach().topk(best, dim=-1).values[..., -1:]
        logits = torch.where(logits < last, -math.inf, logits)
    return F.pad(logits, (0, 1)).softmax(dim=-1)[..., :slots]
