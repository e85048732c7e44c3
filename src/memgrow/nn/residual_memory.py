"""A memory in the residual stream of a Transformer: each domain's slots are read by a query of their own.

Nothing that is computed for one domain depends on another, and values start at zero: growing changes no bit of any
output, whatever was there before.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.nn.bank import rows_of
from memgrow.nn.growing_memory import GrowingMemory
from memgrow.nn.routing import current_routes, grouped

SHARPNESS = 4.0  # the length of every key: with normalised queries the logits of random keys have this spread
COPIED = 1 << 18  # numbers that are copied in the time that a further group of rows takes


class ResidualMemory(GrowingMemory):
    """Adds to states (..., width) what the slots of each domain have to say of them.

    For each segment of slots: a normalised query of `key_size` numbers, the `best` slots by their key, and the sum of
    their values, weighted by a softmax over them and a logit of 0 that stands for nothing. The readings "fixed-keys"
    (keys that do not train) and "adapter" (a bottleneck of as many parameters) are controls.
    """

    _silent: frozenset[str] = frozenset()  # domains whose slots add nothing
    _only: tuple[int, ...] | None = None  # numbers of the segments that are asked for

    def forward(self, states: Tensor) -> Tensor:
        # What new slots add has to be 0.0 and is subtracted: -0.0 + 0.0 would be 0.0, another bit. It is 0.0 as no
        # factor is -0.0, in whatever order it is summed.
        if (routes := current_routes()) is not None:
            # An exported graph has no groups of rows, whose number and sizes depend on the texts.
            read = self._read_masked if torch.compiler.is_exporting() else self._read_routed
            return read(states, routes)
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
        # In the order of segments, as all are read: growth may turn round which is nearest, and so the bits of a sum.
        for choice in routes.sort(1).values.unbind(1):
            order, groups = grouped(choice)
            if self._batches_rows(states, len(groups)):
                result = result - self._contents_by_row(states, choice)
            else:
                result = result - self._contents_by_group(states, order, groups)
        return result

    def _batches_rows(self, states: Tensor, groups: int) -> bool:
        """Whether rows are read by one batched product, for which each has a copy of its slots, and not in groups."""
        segment = len(self.bank) // len(self.bank.segments) * (self.bank.keys.shape[1] + self.width)
        numbers = segment + self._reading.queried * self.key_size * self.width
        return groups > 1 and states.device.type == "cpu" and len(states) * numbers <= groups * COPIED

    def _contents_by_group(self, states: Tensor, order: Tensor, groups: Sequence[tuple[int, int]]) -> Tensor:
        contents = []
        for (number, count), rows in zip(groups, torch.split(order, [count for _, count in groups]), strict=True):
            segment, some = self.bank.segments[number], states if count == len(states) else states[rows]
            if segment.domain in self._silent:
                contents.append(torch.zeros_like(some))
                continue
            values = 0.0 - self.bank.values[segment.start : segment.stop]
            weights = self._weights(some.reshape(-1, self.width), number).to(values)  # (places, slots)
            contents.append((weights @ values).to(states).view_as(some))
        return contents[0] if len(groups) == 1 else torch.cat(contents)[order.argsort()]

    def _contents_by_row(self, states: Tensor, choice: Tensor) -> Tensor:
        slots = self.bank.slots_of(choice.unsqueeze(1))
        places = states.reshape(len(states), -1, self.width)
        networks = self.query.weight.view(-1, self.key_size, self.width)
        queries = self._query_by(places, rows_of(networks, choice) if self._reading.queried else networks)
        memory = self.bank.memory_by_row(slots)  # (R, n, ...)
        logits = self._logits(queries, memory.keys)  # (R, places, n)
        if memory.bias is not None:
            logits = logits + memory.bias.unsqueeze(1)
        values = 0.0 - memory.values
        contents = (self._reading.weigh(logits, self.best).to(values) @ values).to(states).view_as(states)
        if self._silent:
            silent = [self.bank.segments[number].domain in self._silent for number in choice.tolist()]
            shape = (-1, *[1] * (states.ndim - 1))
            contents = contents.masked_fill(torch.tensor(silent, device=states.device).view(shape), 0.0)
        return contents

    def _read_masked(self, states: Tensor, routes: Tensor) -> Tensor:
        """The same by reading all segments for all rows, and taking what is on a row's routes."""
        result = states
        for number in self.read_segments:
            segment = self.bank.segments[number]
            if segment.domain not in self._silent:
                content = self._weights(states, number).to(states) @ self.bank.values[segment.start : segment.stop]
                reads = (routes == number).any(1).view(-1, *[1] * (states.ndim - 1))
                result = result + content * reads
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

    def read_only(self, numbers: Sequence[int]) -> None:
        """Read the segments of these numbers, in this order, and no others from now on."""
        self._only = tuple(numbers)

    # What follows depends on one segment's own rows alone, in numbers and in the shapes of all operations.

    def _query(self, states: Tensor, number: int) -> Tensor:
        own = self.query.weight[number * self.key_size : (number + 1) * self.key_size]
        return self._query_by(states, own)

    def _query_by(self, states: Tensor, own: Tensor) -> Tensor:
        """The queries of states (..., width) by a network (key_size, width), or by one for each row of a batch."""
        if not self._reading.queried:
            return states
        asked = F.linear(states, own) if own.ndim == 2 else states @ own.transpose(1, 2)
        return F.layer_norm(asked, (self.key_size,))

    def _weights(self, states: Tensor, number: int) -> Tensor:
        segment = self.bank.segments[number]
        logits = self._logits(self._query(states, number), self.bank.keys[segment.start : segment.stop])
        if (bias := self.bank.logit_bias()) is not None:
            logits = logits + bias[segment.start : segment.stop]
        return self._reading.weigh(logits, self.best)

    def _logits(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Those of keys (n, key_size), or of keys of its own for each row of a batch."""
        if self._reading.fixed_keys:
            keys = keys.detach()
        if self._reading.queried:
            keys = F.normalize(keys, dim=-1) * SHARPNESS
        logits = F.linear(queries, keys) if keys.ndim == 2 else queries @ keys.transpose(1, 2)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))  # bfloat16 is too coarse for a softmax

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
