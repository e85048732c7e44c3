"""The memory bank: slots of a key and a value each, which are read by attention and belong to domains."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.nn.growth import Draw, Growth
from memgrow.nn.kernels import Memory, attend
from memgrow.nn.state_dicts import NoTraceWhileEmpty, WholeOrUnchanged, packed_json, segments_in, told_segments


@dataclass(frozen=True)
class Segment:
    """Slots `start` to `stop` (exclusive) arrived with `domain`; quiet ones have a learnable bias on their logits."""

    domain: str
    start: int
    stop: int
    quiet: bool = False


@dataclass(frozen=True)
class RowSlots:
    """The slots that each row of a batch reads, (B, n)."""

    indices: Tensor
    there: Tensor | None  # where segments differ in size: which are read; others are a first slot once more
    size: int | None = None  # where they do not, and each stands at a multiple of its size: that size


class Rows(Protocol):
    """Some rows of keys or values, which stand in for all of them while a batch reads no others."""

    def __call__(self, numbers: Tensor) -> Tensor:
        """The rows (..., size) of those numbers (...), in the whole; they may repeat."""

    def stretch(self, start: int, stop: int) -> Tensor:
        """Rows that follow each other, without a copy."""


class MemoryBank(WholeOrUnchanged, NoTraceWhileEmpty):
    """Keys (N, key_size) and values (N, value_size) that grow.

    Entries of new slots are drawn from U(-1/sqrt(key_size), 1/sqrt(key_size)), like the weights of the layer that
    reads the bank. A state dict tells who owns which slots: a bank that has none of them, or the first, grows for it.
    """

    keys: nn.Parameter
    values: nn.Parameter
    bias: nn.Parameter  # (quiet slots): only quiet slots have one

    def __init__(
        self,
        key_size: int,
        value_size: int,
        slots: int = 0,
        domain: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(0, key_size, device=device, dtype=dtype))
        self.values = nn.Parameter(torch.empty(0, value_size, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(0, device=device, dtype=dtype))
        self.segments: tuple[Segment, ...] = ()
        self.activate: Callable[[Tensor], tuple[Rows, Rows]] | None = None  # of who trains slots that wait
        self._active: tuple[Rows, Rows] | None = None
        if slots:
            self.grow(slots, domain)

    def __len__(self) -> int:
        return self.keys.shape[0]

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that own slots, in the order in which they arrived."""
        return tuple(dict.fromkeys(segment.domain for segment in self.segments))

    @property
    def memory(self) -> Memory | None:
        """Keys, values and biases as the recurrence reads them; None while there are no slots."""
        return Memory(self.keys, self.values, self.logit_bias()) if len(self) else None

    def will_read(self, routes: Tensor) -> None:
        """Called before a batch whose rows read segments of these numbers (B, count), and no others."""
        if self.activate is not None:
            read = [self.segments[number] for number in sorted(set(routes.flatten().tolist()))]
            self._active = self.activate(torch.cat([torch.arange(one.start, one.stop) for one in read]))

    def have_read(self) -> None:
        """Called after such a batch."""
        if self._active is not None:
            self._active = None

    def memory_of(self, numbers: Sequence[int]) -> Memory:
        """The same of the segments of these numbers alone."""
        segments = [self.segments[number] for number in numbers]

        def some(of_all: Tensor, active: Rows | None = None) -> Tensor:
            taken = [(one.start, one.stop) for one in segments]
            parts = [of_all[start:stop] if active is None else active.stretch(start, stop) for start, stop in taken]
            return parts[0] if len(parts) == 1 else torch.cat(parts)

        bias, (keys, values) = self.logit_bias(), self._active or (None, None)
        return Memory(some(self.keys, keys), some(self.values, values), None if bias is None else some(bias))

    def memory_by_row(self, slots: "RowSlots") -> Memory:
        """The same where each row of a batch reads slots of its own."""
        bias = self.logit_bias()
        own = None if bias is None else rows_of(bias, slots.indices)  # (B, n)
        if slots.there is not None:
            own = (self.keys.new_zeros(()) if own is None else own).masked_fill(~slots.there, -math.inf)
        if self._active is not None:
            active_keys, active_values = self._active
            return Memory(active_keys(slots.indices), active_values(slots.indices), own)
        if slots.size is None:
            return Memory(rows_of(self.keys, slots.indices), rows_of(self.values, slots.indices), own)
        blocks = slots.indices[:, :: slots.size] // slots.size  # (B, count): large pieces are copied in less time
        keys, values = (rows_of(part.view(-1, slots.size, part.shape[1]), blocks) for part in (self.keys, self.values))
        return Memory(keys.flatten(1, 2), values.flatten(1, 2), own)

    def memory_by_stretch(self, routes: Tensor) -> Memory:
        """The same of one segment for each row, by their numbers (B), without a copy and so without gradients."""
        ends = [(self.segments[number].start, self.segments[number].stop) for number in routes.tolist()]
        return Memory(self.keys.detach(), self.values.detach(), self.logit_bias(), torch.tensor(ends))

    def slots_of(self, routes: Tensor) -> "RowSlots":
        """The slots of the segments that each row of a batch reads, by their numbers (B, count)."""
        every = [self.segments[number] for number in routes.flatten().tolist()]
        starts, sizes = [one.start for one in every], [one.stop - one.start for one in every]
        most, there = max(sizes), None
        places, in_blocks = torch.arange(most), self.keys.device.type == "cpu"
        if min(sizes) < most:
            there = places < torch.tensor(sizes).unsqueeze(1)  # (B * count, n)
            places = places * there
        indices = torch.tensor(starts).unsqueeze(1) + places
        in_blocks = in_blocks and there is None and not any(start % most for start in (len(self), *starts))
        shape, device = (len(routes), -1), self.keys.device
        there = None if there is None else there.view(shape).to(device)
        return RowSlots(indices.view(shape).to(device), there, most if in_blocks else None)

    def logit_bias(self, bias: Tensor | None = None) -> Tensor | None:
        """The bias of every slot (N), zero where a slot has none of its own; None when no slot has.

        Another `bias` (..., quiet slots) may stand in for this bank's own, and gives (..., N).
        """
        bias = self.bias if bias is None else bias
        if not bias.shape[-1]:
            return None
        pieces, at = [], 0
        for segment in self.segments:
            size = segment.stop - segment.start
            own = bias[..., at : at + size]
            pieces.append(own if segment.quiet else bias.new_zeros(*bias.shape[:-1], size))
            at += size if segment.quiet else 0
        return torch.cat(pieces, dim=-1)

    def attend(self, query: Tensor, segments: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """For queries (..., key_size): the content (..., value_size), and the weight of each slot (..., N).

        Slots that are not of the `segments` which are read, where these are given, have no weight.
        """
        if segments is None:
            return attend(query, Memory(self.keys, self.values, self.logit_bias()))
        content, some = attend(query, self.memory_of(segments))
        ranges = [torch.arange(self.segments[number].start, self.segments[number].stop) for number in segments]
        weights = some.new_zeros(*some.shape[:-1], len(self))
        weights[..., torch.cat(ranges).to(some.device)] = some
        return content, weights

    def share(self, weights: Tensor) -> dict[str, Tensor]:
        """How the attention `weights` (..., N) divide among the domains: (...) each."""
        zero = weights.new_zeros(weights.shape[:-1])
        shares = dict.fromkeys(self.domains, zero)
        for segment in self.segments:
            shares[segment.domain] = shares[segment.domain] + weights[..., segment.start : segment.stop].sum(-1)
        return shares

    def grow(
        self,
        slots: int,
        domain: str | None = None,
        quiet: float = 0.0,
        *,
        optimiser: torch.optim.Optimizer | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Add slots for a domain (named by its number if it has no name).

        With `quiet` above zero their logits carry a learnable bias that starts at -quiet: they are let in slowly.
        """
        growth = Growth(optimiser, generator)
        self.plan(growth, slots=slots, domain=domain, quiet=quiet)
        growth.commit()

    def restore(self, segments: Sequence[tuple[str, int, bool]], drawn: Draw = torch.zeros) -> None:
        """Have the slots of further segments (domain, slots, quiet), to be filled in: at once, and not one by one.

        Whoever is sure to fill all of them spares the time to set them to zero by torch.empty as `drawn`.
        """
        if any(type(slots) is not int or slots < 1 for _, slots, _ in segments):
            raise SettingsError("a bank grew by something that is no number of slots")
        growth, count = Growth(), sum(slots for _, slots, _ in segments)
        quiet = sum(slots for _, slots, is_quiet in segments if is_quiet)
        for parameter, rows in ((self.keys, count), (self.values, count), (self.bias, quiet)):
            growth.enlarge(parameter, 0, [(len(parameter), rows)], drawn)
        stop = len(self)
        for domain, slots, is_quiet in segments:
            self.segments = (*self.segments, Segment(domain, stop, stop + slots, is_quiet))
            stop += slots
        growth.commit()

    def get_extra_state(self) -> Tensor | None:
        """Who owns which slots, for a state dict; None while there are no slots."""
        told = [[segment.domain, segment.stop - segment.start, segment.quiet] for segment in self.segments]
        return packed_json({"segments": told}) if told else None

    def set_extra_state(self, state: Any) -> None:
        """Take over the names of owners, where slots are as many."""
        told = told_segments(state)
        if [(slots, quiet) for _, slots, quiet in told] == self._sizes:
            named = zip(self.segments, told, strict=True)
            self.segments = tuple(replace(segment, domain=domain) for segment, (domain, _, _) in named)

    @property
    def _sizes(self) -> list[tuple[int, bool]]:
        return [(segment.stop - segment.start, segment.quiet) for segment in self.segments]

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        self.refuse_misfits(state_dict, prefix)
        told = segments_in(state_dict, prefix)
        if [(slots, quiet) for _, slots, quiet in told[: len(self.segments)]] == self._sizes:
            self.restore(told[len(self.segments) :])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def plan_pruning(self, growth: Growth, kept: Sequence[Tensor]) -> dict[str, Tensor]:
        """Plan that of each segment only some slots are left, at least one, numbered within it and in their order.

        Returns the rows that are left of each parameter, by its name.
        """
        segments: list[Segment] = []
        rows, quiet = [], [torch.empty(0, dtype=torch.long)]
        stop = quiet_before = 0
        for segment, some in zip(self.segments, kept, strict=True):
            size = segment.stop - segment.start
            if not 0 < len(some) <= size:
                raise SettingsError(f"a segment of {size} slots keeps 1 to {size} of them, not {len(some)}")
            rows.append(segment.start + some)
            if segment.quiet:
                quiet.append(quiet_before + some)
                quiet_before += size
            segments.append(Segment(segment.domain, stop, stop + len(some), segment.quiet))
            stop += len(some)
        left = {"keys": torch.cat(rows), "values": torch.cat(rows), "bias": torch.cat(quiet)}
        for name, parameter in self.named_parameters():
            growth.select(parameter, left[name])
        growth.then(lambda: setattr(self, "segments", tuple(segments)))
        return left

    def plan(
        self,
        growth: Growth,
        *,
        slots: int = 0,
        keys: int = 0,
        domain: str | None = None,
        quiet: float = 0.0,
        draw_keys: Draw | None = None,
        draw_values: Draw | None = None,
    ) -> None:
        """Make new slots and wider keys part of a larger growth; new slots may be drawn in other ways than usual."""
        if slots < 0 or keys < 0 or not quiet >= 0:
            raise SettingsError(f"a bank grows by 0 or more slots, quiet by 0 or more: got {slots} and {quiet}")
        count, width = self.keys.shape
        draw = growth.uniform(1 / math.sqrt(width + keys))
        growth.enlarge(self.keys, 1, [(width, keys)], draw)
        growth.enlarge(self.keys, 0, [(count, slots)], draw_keys or draw)
        growth.enlarge(self.values, 0, [(count, slots)], draw_values or draw)
        if not slots:
            return
        if quiet:
            growth.enlarge(self.bias, 0, [(len(self.bias), slots)], lambda shape: torch.full(shape, -quiet))
        segment = Segment(domain or str(len(self.domains) + 1), count, count + slots, quiet > 0)
        growth.then(lambda: setattr(self, "segments", (*self.segments, segment)))

    def extra_repr(self) -> str:
        return f"{len(self)} slots, keys of {self.keys.shape[1]}, values of {self.values.shape[1]}"


def rows_of(tensor: Tensor, indices: Tensor) -> Tensor:
    """The rows of these indices. The gradient is the same to the bit each time, as that of `tensor[indices]` is not."""
    return tensor.index_select(0, indices.flatten()).view(*indices.shape, *tensor.shape[1:])
