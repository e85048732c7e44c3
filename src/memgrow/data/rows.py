"""The examples of all files of a stream while it is put together."""

import numpy as np
from numpy.typing import NDArray

from memgrow.data.example import Example
from memgrow.data.records import Record
from memgrow.data.splits import Ranks, ranks

Positions = NDArray[np.int64]


class Rows:
    """Examples and the groups that parts are drawn by, both in the order in which they were added."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._examples: list[Example] = []
        self._groups: list[str] = []

    def append(self, record: Record) -> int:
        """Add a record's example; returns its position."""
        self._examples.append(record.example)
        self._groups.append(record.group)
        return len(self._examples) - 1

    def ranks(self, positions: Positions) -> Ranks:
        """The ranks of their groups, by which parts are drawn."""
        return ranks(self._seed, (self._groups[position] for position in positions.tolist()))

    def take(self, positions: Positions) -> tuple[Example, ...]:
        """The examples in those positions."""
        return tuple(self._examples[position] for position in positions.tolist())
