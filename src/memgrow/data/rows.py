"""The examples of all files of a stream while it is put together: in memory or, once they are many, on the disk.

Whoever puts the stream together moves positions about, and asks for the examples in the end.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memgrow.data.example import Example
from memgrow.data.on_disk import ExampleFile, ExamplesOnDisk, taken
from memgrow.data.records import Record
from memgrow.data.splits import RANKED, Ranks, as_ranks, rank, ranks

IN_MEMORY = 1 << 28  # bytes of examples that are held; what tokens take in training comes on top
EACH = 200  # bytes of an example beside its letters

Positions = NDArray[np.int64]


class Rows:
    """Examples and the groups that parts are drawn by, both in the order in which they were added."""

    def __init__(self, seed: int = 0, in_memory: int = IN_MEMORY) -> None:
        self._seed, self._room = seed, in_memory
        self._examples: list[Example] = []
        self._groups: list[str] = []
        self._file: ExampleFile | None = None  # has all of them once there is no more room
        self._ranks = bytearray()  # of their groups

    def append(self, record: Record) -> int:
        """Add a record's example; returns its position."""
        example = record.example
        if self._file is not None:
            self._write(self._file, example, record.group)
            return len(self._file) - 1
        self._examples.append(example)
        self._groups.append(record.group)
        self._room -= EACH + sum(map(len, example.texts)) + len(example.reply or "")
        if self._room < 0:
            self._file = ExampleFile()
            for known, group in zip(self._examples, self._groups, strict=True):
                self._write(self._file, known, group)
            self._examples, self._groups = [], []
            return len(self._file) - 1
        return len(self._examples) - 1

    def ranks(self, positions: Positions) -> Ranks:
        """The ranks of their groups, by which parts are drawn."""
        if self._file is None:
            return ranks(self._seed, (self._groups[position] for position in positions.tolist()))
        return as_ranks(self._ranks)[positions]

    def take(self, positions: Positions) -> Sequence[Example]:
        """The examples in those positions."""
        return taken(self._examples, positions) if self._file is None else ExamplesOnDisk(self._file, positions)

    def _write(self, file: ExampleFile, example: Example, group: str) -> None:
        file.append(example)
        self._ranks += rank(self._seed, group)[:RANKED]
