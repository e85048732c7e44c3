"""Slots that no text of a batch reads wait, as word vectors do, where texts read a few domains of many.

Plain Adam gives all slots of all domains a gradient, mostly zeros, and moves all of them, so that a step takes longer
with each domain. Here a batch has a gradient for the slots that it reads and no others. What a slot has missed is made
up for when it is read again, and at the end of an epoch (lazy_adam.py): where it ends is where plain Adam would have
it, up to what is said there. Slots that are frozen keep their bits, as ever.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from memgrow.methods import Plugins, Trains
from memgrow.models import Model
from memgrow.nn import MemoryBank
from memgrow.training.lazy_adam import ActiveRows, LazyAdam

LARGE_BANK = 1 << 20  # numbers in the keys of a bank: with fewer, plain Adam is as fast or faster
SPARED = 4  # times as many segments as a text reads: with fewer, little is spared


@dataclass
class _Table:
    """The keys or the values of a bank; the first ones may be frozen."""

    lazy: LazyAdam
    frozen: int
    rows: ActiveRows | None = field(default=None)  # of the present batch

    def activate(self, numbers: Tensor) -> ActiveRows:
        self.rows = self.lazy.activate(numbers)
        return self.rows

    def mask_gradient(self) -> None:
        if self.frozen and self.rows is not None and self.rows.vectors.grad is not None:
            self.rows.vectors.grad[self.rows.numbers < self.frozen] = 0

    def step(self) -> None:
        if self.rows is not None:
            self.lazy.step(self.rows)
        self.rows = None


class WaitingSlots:
    """Moves the slots of banks in the place of the optimiser that holds them."""

    def __init__(self, banks: Sequence[tuple[MemoryBank, int]], optimiser: torch.optim.Adam) -> None:
        """Banks, each with the number of its first slots that are frozen."""
        self._by_bank = [
            (bank, [_Table(LazyAdam(table, optimiser), frozen) for table in (bank.keys, bank.values)])
            for bank, frozen in banks
        ]
        self._tables = [table for _, tables in self._by_bank for table in tables]

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Within, the banks hand out the slots of the present batch."""
        for bank, (keys, values) in self._by_bank:
            bank.activate = lambda numbers, keys=keys, values=values: (keys.activate(numbers), values.activate(numbers))
        try:
            yield
        finally:
            for bank, _ in self._by_bank:
                bank.activate = None

    def moving(self) -> list[Tensor]:
        """All that a backward pass has given a gradient, but for that of frozen slots, which is cleared."""
        for table in self._tables:
            table.mask_gradient()
        return [table.rows.vectors for table in self._tables if table.rows is not None]

    def step(self) -> None:
        for table in self._tables:
            table.step()

    def flush(self) -> None:
        """Bring all slots up to date."""
        for table in self._tables:
            table.rows = None
            table.lazy.flush()


def waiting_banks(model: Model, trains: Trains, plugins: Plugins) -> list[tuple[MemoryBank, int]]:
    """The banks whose slots can wait where that pays, each with the number of its first slots that are frozen.

    On a CPU alone: on a GPU a step is not bound by the slots that it moves.
    """
    found: list[tuple[MemoryBank, int]] = []
    if model.device.type != "cpu" or plugins.sees_every_step:
        return found
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for bank in model.encoder.read_in_part:
        since = {trains.since.get(names[id(table)]) for table in (bank.keys, bank.values)}
        few = len(bank.segments) < SPARED * model.settings.domains_read
        if few or bank.keys.numel() < LARGE_BANK or len(since) > 1:
            continue
        (first,) = since
        if first is not None and first[0] == 0:
            found.append((bank, first[1]))
    return found
