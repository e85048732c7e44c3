"""Slots and query networks that grow with each domain: what a memory in a Transformer is made of."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.nn.bank import MemoryBank, Segment
from memgrow.nn.growth import Draw, Growth
from memgrow.nn.readings import READINGS, Reading
from memgrow.nn.state_dicts import EXTRA, NoTraceWhileEmpty, WholeOrUnchanged, packed_json, unpacked_json

NOISE = 0.1  # length of what is added to a start of unit length when a key begins where another one does


class QueryNetwork(NoTraceWhileEmpty):
    """A linear layer without bias for each segment of slots, (segments * key_size, width), which grows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(0, width))


class GrowingMemory(WholeOrUnchanged, NoTraceWhileEmpty):
    """A bank whose segments have a query network each; `ResidualMemory` reads it.

    As a bank, it grows to load a state dict that tells of more slots.
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
        if slots:
            self.grow(slots, domain)

    @property
    def _reading(self) -> Reading:
        return READINGS[self.reading]

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

        Slots that stand `apart` are read by `read_only` alone.
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

    def restore(self, growths: Sequence[Mapping[str, Any]], drawn: Draw = torch.zeros) -> None:
        """Have the shape of a layer with these `growths`, to be filled in as a bank's slots are."""
        sizes = self._sizes(growths)
        named = [(one["domain"], size, bool(one["quiet"])) for one, size in zip(growths, sizes, strict=True)]
        growth, rows = Growth(), self.key_size * len(growths) * self._reading.queried
        growth.enlarge(self.query.weight, 0, [(len(self.query.weight), rows)], drawn)
        growth.commit()
        self.bank.restore(named, drawn)
        for one in growths:
            self._note_growth(one["slots"], bool(one.get("apart")))

    def _sizes(self, growths: Sequence[Mapping[str, Any]]) -> list[int]:
        """The slots, or units of an adapter, that each of these `growths` brings."""
        if any(type(one["slots"]) is not int or one["slots"] < 1 for one in growths):
            raise SettingsError("a memory grew by something that is no number of slots")
        return [one["slots"] if self._reading.queried else self.matching_units(one["slots"]) for one in growths]

    def get_extra_state(self) -> Tensor | None:
        """The `growths`, for a state dict; None while there are no slots."""
        return packed_json({"growths": self.growths}) if self._asked else None

    def set_extra_state(self, state: Any) -> None:
        """Take over which segments stand apart, where there are as many; their owners' names are the bank's."""
        growths = self._told_growths(state)
        if [one["slots"] for one in growths] == list(self._asked):
            self._apart = frozenset(number for number, one in enumerate(growths) if one.get("apart"))

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        self.refuse_misfits(state_dict, prefix)
        state, keys = state_dict.get(prefix + EXTRA), state_dict.get(prefix + "bank.keys")
        if state is not None and keys is not None:
            growths = self._told_growths(state)
            if sum(self._sizes(growths)) != len(keys):
                raise SettingsError(f"this state dict tells of other growths than its {len(keys)} slots: it is damaged")
            if [one["slots"] for one in growths[: len(self._asked)]] == list(self._asked):
                self.restore(growths[len(self._asked) :])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _told_growths(self, state: Any) -> list[dict[str, Any]]:
        told, kinds = unpacked_json(state), {"slots": int, "domain": str, "quiet": float}

        def right(one: object) -> bool:
            return isinstance(one, dict) and all(type(one.get(name)) is kind for name, kind in kinds.items())

        growths = told.get("growths") if isinstance(told, dict) else None
        if not isinstance(growths, list) or not all(map(right, growths)):
            raise SettingsError("this state dict does not say how its memory grew: it is damaged")
        return growths

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
