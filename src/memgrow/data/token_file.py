"""The tokens of examples in a scratch file, four bytes each, and how often each occurs."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrow.data.scratch import ScratchFile
from memgrow.data.splits import RANKED, as_ranks, groups_by_rank

Numbers = NDArray[np.int32]
Counts = NDArray[np.int64]
BYTES = np.dtype(np.int32).itemsize
BLOCK = 1024  # examples that are counted at once


class TokenFile:
    """Texts as numbers, of equally many texts for each example."""

    def __init__(self) -> None:
        self._file = ScratchFile()
        self._ends = array("q", [0])  # of every text, in numbers
        self.each = 0  # texts of an example

    def __len__(self) -> int:
        return (len(self._ends) - 1) // max(1, self.each)

    def append(self, examples: Sequence[tuple[Sequence[Any], ...]], numbers: Iterable[int]) -> None:
        """Write the texts of examples behind the others; `numbers` are their tokens, one after another."""
        self.each = self.each or len(examples[0])
        assert all(len(texts) == self.each for texts in examples)
        end = self._ends[-1]
        for text in chain.from_iterable(examples):
            end += len(text)
            self._ends.append(end)
        self._file.write(np.fromiter(numbers, np.int32).data.cast("B"))
        assert self._file.size == end * BYTES

    def texts(self, index: int) -> list[Numbers]:
        """The texts of an example."""
        first = index * self.each
        start, *ends = self._ends[first : first + self.each + 1]
        row = np.frombuffer(self._file.read(start * BYTES, ends[-1] * BYTES), np.int32)
        return [row] if len(ends) == 1 else np.split(row, [end - start for end in ends[:-1]])

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of every text: (examples, texts). For when all have been written."""
        return np.diff(np.array(self._ends)).reshape(len(self), -1)

    def will_read(self, indices: Iterable[int]) -> None:
        """Let the system fetch the texts of those examples."""
        ends, each = self._ends, self.each
        self._file.will_read((ends[i * each] * BYTES, ends[(i + 1) * each] * BYTES) for i in indices)

    def occurrences(self, distinct: int) -> Counts:
        """How often each number below `distinct` occurs."""
        counts = np.zeros(distinct, np.int64)
        for flat, _ in self._blocks():
            numbers, times = np.unique(flat, return_counts=True)
            counts[numbers] += times
        return counts

    def examples_with(self, distinct: int) -> Counts:
        """In how many examples each number below `distinct` occurs; those that share their longest text are one."""
        counts, longest = np.zeros(distinct, np.int64), bytearray()
        for flat, example in self._blocks():
            # Each number once for each example.
            once = np.unique(example * distinct + flat) % distinct
            numbers, times = np.unique(once, return_counts=True)
            counts[numbers] += times
        for index in range(len(self)):
            longest += hashlib.blake2b(max(self.texts(index), key=len).tobytes(), digest_size=RANKED).digest()
        order, group = groups_by_rank(as_ranks(longest))
        sizes = np.bincount(group)
        ends = np.cumsum(sizes)
        for number in np.flatnonzero(sizes > 1).tolist():
            alike = [self._numbers(index) for index in order[ends[number] - sizes[number] : ends[number]].tolist()]
            for numbers in alike:
                counts[numbers] -= 1
            counts[np.unique(np.concatenate(alike))] += 1
        return counts

    def _numbers(self, index: int) -> Numbers:
        """The different numbers of an example."""
        return np.unique(np.concatenate(self.texts(index)))

    def _blocks(self) -> Iterator[tuple[Numbers, NDArray[np.int64]]]:
        """All numbers, a block of examples at a time, and for each number the example of the block that has it."""
        each = self.lengths.sum(axis=1)
        for start, end in pairwise([*range(0, len(self), BLOCK), len(self)]):
            first, last = self._ends[start * self.each], self._ends[end * self.each]
            flat = np.frombuffer(self._file.read(first * BYTES, last * BYTES), np.int32)
            yield flat, np.repeat(np.arange(end - start), each[start:end])
