"""A memory in the residual stream of a Transformer: each domain's slots are read by a query of their own.

Nothing that is computed for one domain depends on another, and values start at zero: growing changes no bit of any
output, whatever was there before.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.nn.bank import MemoryBank, NoTraceWhileEmpty, Segment
from memgrow.nn.growth import Growth
from memgrow.nn.routing import current_routes, grouped

SHARPNESS = 4.0  # the length of every key: with normalised queries the logits of random keys have this spread
NOISE = 0.1  # length of what is added to a start of unit length when a key begins where another one does

Weigh = Callable[[Tensor, int], Tensor]
"""From the logits (..., n) of a domain's slots, and the number of slots to read, to the weight of each (..., n)."""


def best_slots(logits: Tensor, best: int) -> Tensor:
    """A softmax over the `best` largest logits and a logit of 0 for nothing; slots that tie with the last are read too.

    Dense, with a threshold from `topk`: no indices, so that shapes are fixed and the backward pass has no atomics.
    """
    slots = logits.shape[-1]
    if best < slots:
        last = logits.detach().topk(best, dim=-1).values[..., -1:]
        logits = torch.where(logits < last, -math.inf, logits)
    return F.pad(logits, (0, 1)).softmax(dim=-1)[..., :slots]


def activations(logits: Tensor, best: int) -> Tensor:
    """The hidden units of an adapter; all are read."""
    return logits.relu() + 0.0  # 0.0 where a rectifier hands on -0.0: see ResidualMemory.forward


def share_of_attention(weights: Tensor) -> Tensor:
    return weights


def share_of_activation(weights: Tensor) -> Tensor:
    """Beside a unit that is always at 1 and stands for nothing."""
    return weights / (1 + weights.sum(-1, keepdim=True))


@dataclass(frozen=True)
class Reading:
    """A way to read: the one that is meant, or a control that it is held against."""

    weigh: Weigh
    queried: bool = True  # keys are compared with a query; else with the states themselves
    fixed_keys: bool = False  # keys stay as they were drawn
    share: Callable[[Tensor], Tensor] = share_of_attention  # the weights (..., n) as parts of at most 1 in all


READINGS = {
    "slots": Reading(best_slots),
    "fixed-keys": Reading(best_slots, fixed_keys=True),
    "adapter": Reading(activations, queried=False, share=share_of_activation),
}


class QueryNetwork(NoTraceWhileEmpty):
    """A linear layer without bias for each segment of slots, (segments * key_size, width), which grows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(0, width))


class ResidualMemory(nn.Module):
    """Adds to states (..., width) what the slots of each domain have to say of them.

    For each segment of slots: a normalised query of `key_size` numbers, the `best` slots by their key, and the sum of
    their values, weighted by a softmax over them and a logit of 0 that stands for nothing. The readings "fixed-keys"
    (keys that do not train) and "adapter" (a bottleneck of as many parameters) are controls.
    """

    def __init__(
        self,
        width: int,
        *,
        key_size: int = 64,
        best: int = 16,
        slots: int = 0,
        domain: str | None = None,
        reading: str = "slots",
    ) -> None:
        super().__init__()
        if reading not in READINGS:
            raise SettingsError(f"the reading {reading!r} is not known; there are {', '.join(READINGS)}")
        if width < 1 or key_size < 2 or best < 1:
            raise SettingsError(
                "a memory needs states of 1 number or more, keys of 2 or more, and 1 slot or more that is read: "
                f"got width {width}, key_size {key_size} and best {best}"
            )
        self.width, self.key_size, self.best = width, key_size, best
        self.reading = reading
        self.query = QueryNetwork(width)
        self.bank = MemoryBank(key_size if self._reading.queried else width, width)
        self._asked: tuple[int, ...] = ()  # for each segment, the slots that were asked for
        self._apart: frozenset[int] = frozenset()  # numbers of segments that are read where they are asked for alone
        self._silent: frozenset[str] = frozenset()
        self._only: tuple[int, ...] | None = None  # numbers of the segments that are asked for
        if slots:
            self.grow(slots, domain)

    @property
    def _reading(self) -> Reading:
        return READINGS[self.reading]

    # Reading

    def forward(self, states: Tensor) -> Tensor:
        # What new slots add has to be 0.0 and is subtracted: -0.0 + 0.0 would be 0.0, another bit. It is 0.0 as no
        # factor is -0.0, in whatever order it is summed.
        if (routes := current_routes()) is not None:
            return self._read_routed(states, routes)
        places, result = states.reshape(-1, self.width), states
        for number in self.read_segments:
            segment = self.bank.segments[number]
            if segment.domain not in self._silent:
                values = 0.0 - self.bank.values[segment.start : segment.stop]
                weights = self._weights(places, number).to(values)  # (places, slots)
                result = result - (weights @ values).to(states).view_as(states)
        return result

    def _read_routed(self, states: Tensor, routes: Tensor) -> Tensor:
        """The same where each row of states (R, ..., width) reads the segments of its routes (R, count) alone."""
        result = states
        for choice in routes.unbind(1):
            order, groups = grouped(choice)
            contents = []
            for (number, count), rows in zip(groups, torch.split(order, [count for _, count in groups]), strict=True):
                segment, some = self.bank.segments[number], states if count == len(states) else states[rows]
                if segment.domain in self._silent:
                    contents.append(torch.zeros_like(some))
                    continue
                values = 0.0 - self.bank.values[segment.start : segment.stop]
                weights = self._weights(some.reshape(-1, self.width), number).to(values)  # (places, slots)
                contents.append((weights @ values).to(states).view_as(some))
            content = contents[0] if len(groups) == 1 else torch.cat(contents)[order.argsort()]
            result = result - content
        return result

    @property
    def read_segments(self) -> Sequence[int]:
        """The numbers of the segments that are read, in order: those that are asked for, or all but those apart."""
        if self._only is not None:
            return self._only
        return [number for number in range(len(self.bank.segments)) if number not in self._apart]

    def weights(self, states: Tensor) -> Tensor:
        """The share of each slot in what its domain's slots add, (..., N); what a domain lacks to 1 went to nothing.

        Where rows are routed, states are (R, ..., width).
        """
        read, routes, shares = set(self.read_segments), current_routes(), [states.new_zeros(*states.shape[:-1], 0)]
        for number, segment in enumerate(self.bank.segments):
            none = states.new_zeros(*states.shape[:-1], segment.stop - segment.start)
            share = self._reading.share(self._weights(states, number)) if number in read else none
            if routes is not None:
                reads = (routes == number).any(1)
                share = share * reads.view(-1, *[1] * (states.ndim - 1))
            shares.append(share)
        return torch.cat(shares, dim=-1)

    def contents(self, states: Tensor) -> dict[str, Tensor]:
        """What the slots of each domain add to states (..., width), by domain: of the same shape."""
        added: dict[str, Tensor] = {}
        for number in self.read_segments:
            segment = self.bank.segments[number]
            values = self.bank.values[segment.start : segment.stop]
            content = self._weights(states, number).to(values) @ values
            added[segment.domain] = added[segment.domain] + content if segment.domain in added else content
        return added

    def counts(self, states: Tensor, mask: Tensor) -> Tensor:
        """How often each slot is read at the places of the `mask` (...), each time by its weight: (N)."""
        if current_routes() is None:
            weights = self.weights(states.reshape(-1, self.width))  # (places, N)
        else:
            weights = self.weights(states).flatten(0, -2)
        return mask.flatten().to(weights) @ weights

    def queries(self, states: Tensor, domain: str) -> Tensor:
        """What the newest slots of a domain are asked: (..., key_size)."""
        return self._query(states, self._newest(domain))

    @contextmanager
    def without(self, *domains: str) -> Iterator[None]:
        """Within, the slots of these domains add nothing."""
        before, self._silent = self._silent, self._silent | set(domains)
        try:
            yield
        finally:
            self._silent = before

    @contextmanager
    def reading_only(self, numbers: Sequence[int]) -> Iterator[None]:
        """Within, the segments of these numbers are read, in this order, and no others."""
        before, self._only = self._only, tuple(numbers)
        try:
            yield
        finally:
            self._only = before

    # What follows depends on one segment's own rows alone, in numbers and in the shapes of all operations.

    def _query(self, states: Tensor, number: int) -> Tensor:
        if not self._reading.queried:
            return states
        own = self.query.weight[number * self.key_size : (number + 1) * self.key_size]
        return F.layer_norm(F.linear(states, own), (self.key_size,))

    def _weights(self, states: Tensor, number: int) -> Tensor:
        segment = self.bank.segments[number]
        keys = self.bank.keys[segment.start : segment.stop]
        if self._reading.fixed_keys:
            keys = keys.detach()
        if self._reading.queried:
            keys = F.normalize(keys, dim=-1) * SHARPNESS
        logits = F.linear(self._query(states, number), keys)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # bfloat16 is too coarse for a softmax
        if (bias := self.bank.logit_bias()) is not None:
            logits = logits + bias[segment.start : segment.stop]
        return self._reading.weigh(logits, self.best)

    # Growing

    def grow(
        self,
        slots: int,
        domain: str | None = None,
        quiet: float = 0.0,
        *,
        apart: bool = False,
        optimiser: torch.optim.Optimizer | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Add slots for a domain, and a query network that reads them; outputs keep their bits.

        Slots that stand `apart` are read within `reading_only` alone.
        """
        growth = Growth(optimiser, generator)
        self.plan(growth, slots=slots, domain=domain, quiet=quiet, apart=apart)
        growth.commit()

    def plan(
        self, growth: Growth, *, slots: int = 0, domain: str | None = None, quiet: float = 0.0, apart: bool = False
    ) -> None:
        """Make new slots part of a larger growth. New rows stand at the end of each parameter."""
        if slots and self._reading.queried:
            rows = len(self.query.weight)
            draw = growth.uniform(1 / math.sqrt(self.width))
            growth.enlarge(self.query.weight, 0, [(rows, self.key_size)], draw)
        self.bank.plan(
            growth,
            slots=slots if self._reading.queried else self.matching_units(slots),
            domain=domain,
            quiet=quiet,
            draw_keys=(lambda shape: F.normalize(growth.uniform(1)(shape), dim=-1)) if self._reading.queried else None,
            draw_values=torch.zeros,
        )
        if slots:
            growth.then(lambda: self._note_growth(slots, apart))

    def _note_growth(self, slots: int, apart: bool) -> None:
        self._apart |= {len(self._asked)} if apart else set()
        self._asked = (*self._asked, slots)

    def plan_pruning(self, growth: Growth, kept: Sequence[Tensor]) -> dict[str, Tensor]:
        """Plan that of each segment only some slots are left; the rows that are left, by a parameter's name."""
        if not self._reading.queried:
            raise SettingsError("an adapter has no slots that could be pruned")
        left = self.bank.plan_pruning(growth, kept)
        growth.then(lambda: setattr(self, "_asked", tuple(map(len, kept))))
        return {f"bank.{name}": rows for name, rows in left.items()}

    def matching_units(self, slots: int) -> int:
        """The number of an adapter's hidden units that have as many parameters as `slots` slots with their query."""
        if slots <= 0:
            return slots
        parameters = slots * (self.key_size + self.width) + self.key_size * self.width
        return max(1, round(parameters / (2 * self.width)))

    @property
    def growths(self) -> list[dict[str, Any]]:
        """The calls of `grow` that give a new layer the shape of this one, as JSON: to load a state dict."""
        return [
            {
                "slots": slots,
                "domain": segment.domain,
                "quiet": float(segment.quiet),
                **({"apart": True} if number in self._apart else {}),
            }
            for number, (slots, segment) in enumerate(zip(self._asked, self.bank.segments, strict=True))
        ]

    def restore(self, growths: Sequence[Mapping[str, Any]]) -> None:
        """Have the shape of a layer with these `growths`, to be filled in: at once, and not one after another."""
        if any(type(one["slots"]) is not int or one["slots"] < 1 for one in growths):
            raise SettingsError("a memory grew by something that is no number of slots")
        sizes = [one["slots"] if self._reading.queried else self.matching_units(one["slots"]) for one in growths]
        named = [(one["domain"], size, bool(one["quiet"])) for one, size in zip(growths, sizes, strict=True)]
        growth, rows = Growth(), self.key_size * len(growths) * self._reading.queried
        growth.enlarge(self.query.weight, 0, [(len(self.query.weight), rows)], torch.zeros)
        growth.commit()
        self.bank.restore(named)
        for one in growths:
            self._note_growth(one["slots"], bool(one.get("apart")))

    @torch.no_grad()
    def start_keys(self, domain: str, queries: Tensor, generator: torch.Generator | None = None) -> None:
        """Set the keys of a domain's newest slots to a sample of `queries` (Q, key_size); if few, also close to them.

        Keys that do not train, and an adapter's, stay as they were drawn. Chance is drawn on the CPU.
        """
        if not self._reading.queried or self._reading.fixed_keys or not len(queries):
            return
        segment = self.bank.segments[self._newest(domain)]
        slots = segment.stop - segment.start
        rounds = [torch.randperm(len(queries), generator=generator) for _ in range(math.ceil(slots / len(queries)))]
        chosen = torch.cat(rounds)[:slots].to(queries.device)
        keys = F.normalize(queries[chosen].to(self.bank.keys), dim=-1)
        if slots > len(queries):
            noise = torch.randn(slots - len(queries), self.key_size, generator=generator)
            keys[len(queries) :] += noise.to(keys) * (NOISE / math.sqrt(self.key_size))
        self.bank.keys[segment.start : segment.stop] = F.normalize(keys, dim=-1)

    def untrained_parameters(self) -> Sequence[nn.Parameter]:
        """What does not train, whatever the method: keys that are fixed. They never have a gradient."""
        return (self.bank.keys,) if self._reading.fixed_keys else ()

    def rows(self, segment: Segment) -> dict[str, slice]:
        """The rows of each parameter that came with a segment, by the parameter's name."""
        number, slots = self.bank.segments.index(segment), slice(segment.start, segment.stop)
        rows = {"bank.keys": slots, "bank.values": slots}
        if self._reading.queried:
            rows["query.weight"] = slice(number * self.key_size, (number + 1) * self.key_size)
        return rows

    def segment_tensors(self, number: int) -> dict[str, Tensor]:
        """All numbers that one segment is made of, by the parameter's name: views, which may be written to."""
        segment, named = self.bank.segments[number], dict(self.named_parameters())
        parts = {name: named[name].data[rows] for name, rows in self.rows(segment).items()}
        if segment.quiet:
            before = sum(one.stop - one.start for one in self.bank.segments[:number] if one.quiet)
            parts["bank.bias"] = self.bank.bias.data[before : before + segment.stop - segment.start]
        return parts

    def _newest(self, domain: str) -> int:
        numbers = [n for n, segment in enumerate(self.bank.segments) if segment.domain == domain]
        if not numbers:
            known = ", ".join(self.bank.domains) or "none"
            raise SettingsError(f"the domain {domain!r} has no slots in this memory; those that have: {known}")
        return numbers[-1]

    def extra_repr(self) -> str:
        return f"{self.width}, best={self.best}, reading={self.reading!r}"


def read_naively(memory: ResidualMemory, states: Tensor) -> Tensor:
    """What slots (not an adapter) add to states (..., width): place by place, as the docstrings have it."""
    rows = []
    for state in states.reshape(-1, states.shape[-1]):
        content = torch.zeros_like(state)
        for number, segment in enumerate(memory.bank.segments):
            projected = memory.query.weight[number * memory.key_size : (number + 1) * memory.key_size] @ state
            query = (projected - projected.mean()) / (projected.var(correction=0) + 1e-5).sqrt()
            keys = memory.bank.keys[segment.start : segment.stop]
            values = memory.bank.values[segment.start : segment.stop]
            logits = [query @ (key / key.norm() * SHARPNESS) for key in keys]
            if (bias := memory.bank.logit_bias()) is not None:
                logits = [logit + b for logit, b in zip(logits, bias[segment.start : segment.stop], strict=True)]
            last = sorted((logit.item() for logit in logits), reverse=True)[: memory.best][-1]
            read = [slot for slot, logit in enumerate(logits) if logit.item() >= last]
            weights = torch.softmax(torch.stack([torch.zeros_like(logits[0]), *(logits[slot] for slot in read)]), 0)
            for weight, slot in zip(weights[1:], read, strict=True):
                content = content + weight * values[slot]
        rows.append(content)
    return torch.stack(rows).view_as(states)
