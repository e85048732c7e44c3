"""The memory bank: slots of a key and a value each, which are read by attention and belong to domains."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.nn.growth import EXTRA, Draw, GrowingModule, Growth
from memgrow.nn.kernels import Memory, attend


@dataclass(frozen=True)
class Segment:
    """Slots `start` to `stop` (exclusive), added for `domain`; logits of `biased` ones have a learnable bias."""

    domain: str
    start: int
    stop: int
    biased: bool = False

    def __len__(self) -> int:
        return self.stop - self.start


class MemoryBank(GrowingModule):
    """Keys (N, key_size) and values (N, value_size) that grow.

    Entries of new slots are drawn from U(-1/sqrt(key_size), 1/sqrt(key_size)), like the weights of the layer that
    reads the bank. A bank grows to load a state dict that has more slots after its own.
    """

    keys: nn.Parameter
    values: nn.Parameter
    bias: nn.Parameter  # (biased slots)

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

    def logit_bias(self) -> Tensor | None:
        """The bias of every slot (N), zero where a slot has none; None when no slot has one."""
        if not len(self.bias):
            return None
        pieces, at = [], 0
        for segment in self.segments:
            pieces.append(self.bias[at : at + len(segment)] if segment.biased else self.bias.new_zeros(len(segment)))
            at += len(segment) if segment.biased else 0
        return torch.cat(pieces)

    def attend(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """For queries (..., key_size): the content (..., value_size), and the weight of each slot (..., N)."""
        return attend(query, Memory(self.keys, self.values, self.logit_bias()))

    def share(self, weights: Tensor) -> dict[str, Tensor]:
        """How the attention `weights` (..., N) divide among the domains: (...) each."""
        shares = dict.fromkeys(self.domains, weights.new_zeros(weights.shape[:-1]))
        for segment in self.segments:
            shares[segment.domain] = shares[segment.domain] + weights[..., segment.start : segment.stop].sum(-1)
        return shares

    def plan(
        self,
        growth: Growth,
        *,
        slots: int = 0,
        keys: int = 0,
        domain: str | None = None,
        initial_logit_bias: float = 0.0,
        draw_keys: Draw | None = None,
        draw_values: Draw | None = None,
    ) -> None:
        """Plan new slots for a domain (named by its number if it has no name) and wider keys.

        With an `initial_logit_bias` below zero the logits of new slots carry a learnable bias that starts there.
        """
        if slots < 0 or keys < 0 or not initial_logit_bias <= 0:
            raise SettingsError(
                f"slots must be 0 or more and initial_logit_bias at most 0: {slots}, {initial_logit_bias}"
            )
        count, width = self.keys.shape
        draw = growth.uniform(1 / math.sqrt(width + keys))
        growth.enlarge(self.keys, 1, [(width, keys)], draw)
        growth.enlarge(self.keys, 0, [(count, slots)], draw_keys or draw)
        growth.enlarge(self.values, 0, [(count, slots)], draw_values or draw)
        if not slots:
            return
        if initial_logit_bias:
            growth.enlarge(self.bias, 0, [(len(self.bias), slots)], lambda shape: torch.full(shape, initial_logit_bias))
        unused = (number for number in map(str, itertools.count(len(self.domains) + 1)) if number not in self.domains)
        segment = Segment(domain or next(unused), count, count + slots, bool(initial_logit_bias))
        growth.then(lambda: setattr(self, "segments", (*self.segments, segment)))

    def restore(self, segments: Sequence[tuple[str, int, bool]], draw: Draw = torch.zeros) -> None:
        """Add the slots of further segments (domain, slots, biased), whose numbers are to be filled in."""
        if any(type(slots) is not int or slots < 1 for _, slots, _ in segments):
            raise SettingsError("a bank has a segment without a number of slots")
        growth, count = Growth(), sum(slots for _, slots, _ in segments)
        biased = sum(slots for _, slots, is_biased in segments if is_biased)
        for parameter, rows in ((self.keys, count), (self.values, count), (self.bias, biased)):
            growth.enlarge(parameter, 0, [(len(parameter), rows)], draw)
        parts, stop = [], len(self)
        for domain, slots, is_biased in segments:
            parts.append(Segment(domain, stop, stop + slots, is_biased))
            stop += slots
        self.segments = (*self.segments, *parts)
        growth.commit()

    def get_extra_state(self) -> Tensor | None:
        """The owners of slots, for a state dict; None while there are no slots."""
        owners = [[segment.domain, len(segment), segment.biased] for segment in self.segments]
        packed = json.dumps({"segments": owners}).encode("ascii")
        return torch.tensor(list(packed), dtype=torch.uint8) if owners else None

    def set_extra_state(self, state: Any) -> None:
        """Take over the names of owners, where slots are as many."""
        stored = _unpack_segments(state)
        if [one[1:] for one in stored] == self._sizes:
            named = zip(self.segments, stored, strict=True)
            self.segments = tuple(replace(segment, domain=domain) for segment, (domain, _, _) in named)

    @property
    def _sizes(self) -> list[tuple[int, bool]]:
        return [(len(segment), segment.biased) for segment in self.segments]

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        stored = segments_in(state_dict, prefix)
        if [one[1:] for one in stored[: len(self.segments)]] == self._sizes:
            self.restore(stored[len(self.segments) :])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"{len(self)} slots, keys of {self.keys.shape[1]}, values of {self.values.shape[1]}"


def segments_in(state_dict: Mapping[str, Any], prefix: str) -> list[tuple[str, int, bool]]:
    """The segments (domain, slots, biased) of the bank `prefix` in a state dict; none if it names none."""
    state, keys = state_dict.get(prefix + EXTRA), state_dict.get(prefix + "keys")
    if state is None or keys is None:
        return []
    stored = _unpack_segments(state)
    if sum(slots for _, slots, _ in stored) != len(keys):
        raise SettingsError(f"this state dict is damaged: its segments do not add up to {len(keys)} slots")
    return stored


def _unpack_segments(state: Any) -> list[tuple[str, int, bool]]:
    """What `get_extra_state` packed, also where the bytes have been cast to another dtype since."""
    try:
        stored = json.loads(bytes(state.to("cpu", torch.uint8).tolist()))["segments"]
        segments = [(domain, slots, biased) for domain, slots, biased in stored]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        segments = []
    kinds = {tuple(map(type, segment)) for segment in segments}
    if kinds != {(str, int, bool)} or any(slots < 1 for _, slots, _ in segments):
        raise SettingsError(f"the entry {EXTRA} of this state dict is damaged: it names no owners of slots")
    return segments
