"""Examples that live on the disk: a sequence like any other, which takes a few bytes of memory for each example.

What is asked of every example again and again (its label, how many texts it has, whether it has a reply) is its kind,
which is kept in memory; texts are read from the file.
"""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from memgrow.data.example import Example, LargeExamples, representatives
from memgrow.data.scratch import ScratchFile

HEADER = struct.Struct("<qiii")  # of an example: the number in its place, the place, the bytes of text and pair
Kind = tuple[str | None, bool, bool]  # label, whether there is a pair, whether there is a reply


class ExampleFile:
    """Examples in a scratch file, each known by its position: the first is 0."""

    def __init__(self) -> None:
        self._file = ScratchFile()
        self._ends = array("q", [0])
        self._kinds: dict[Kind, int] = {}
        self._kind_of = array("i")
        self._places: dict[str, int] = {}  # "reviews.jsonl, line": without the number, of which there are many

    def __len__(self) -> int:
        return len(self._kind_of)

    def append(self, example: Example) -> None:
        """Write an example behind the others."""
        place, _, digits = example.where.rpartition(" ")
        number = int(digits) if digits.isdecimal() and digits.isascii() else -1
        if number < 0 or str(number) != digits:
            place, number = example.where, -1
        text, pair, reply = (
            b"" if part is None else part.encode() for part in (example.text, example.pair, example.reply)
        )
        kind = (example.label, example.pair is not None, example.reply is not None)
        self._kind_of.append(self._kinds.setdefault(kind, len(self._kinds)))
        header = HEADER.pack(number, self._places.setdefault(place, len(self._places)), len(text), len(pair))
        self._file.write(b"".join((header, text, pair, reply)))
        self._ends.append(self._file.size)

    def example(self, position: int) -> Example:
        """The example in that position."""
        content = self._file.read(self._ends[position], self._ends[position + 1])
        number, place, text, pair = HEADER.unpack_from(content)
        label, has_pair, has_reply = self._known_kinds[self._kind_of[position]]
        second = HEADER.size + text
        third = second + pair
        where = self._known_places[place]
        return Example(
            content[HEADER.size : second].decode(),
            content[second:third].decode() if has_pair else None,
            label,
            where if number < 0 else f"{where} {number}",
            content[third:].decode() if has_reply else None,
        )

    def first_of_each_kind(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of the examples in some positions, the first of each kind, as places among them from front to back."""
        kinds = np.frombuffer(self._kind_of, np.int32)[positions]
        return np.sort(np.unique(kinds, return_index=True)[1])

    # Lists of what the dictionaries know; nothing is written any more once examples are read.

    @cached_property
    def _known_kinds(self) -> list[Kind]:
        return list(self._kinds)

    @cached_property
    def _known_places(self) -> list[str]:
        return list(self._places)


class ExamplesOnDisk(LargeExamples):
    """Some of the examples of a file, in any order."""

    def __init__(self, file: ExampleFile, positions: NDArray[np.int64]) -> None:
        self._file, self._positions = file, positions

    def __len__(self) -> int:
        return len(self._positions)

    def _example(self, index: int) -> Example:
        return self._file.example(int(self._positions[index]))

    def representatives(self) -> Sequence[Example]:
        return self._representatives

    @cached_property
    def _representatives(self) -> list[Example]:
        return [self._example(int(index)) for index in self._file.first_of_each_kind(self._positions)]

    def take(self, indices: NDArray[np.int64]) -> "ExamplesOnDisk":
        return ExamplesOnDisk(self._file, self._positions[indices])


class JoinedExamples(LargeExamples):
    """Several sequences of examples, one after another."""

    def __init__(self, parts: Sequence[Sequence[Example]]) -> None:
        self._parts = parts
        self._starts = [0, *accumulate(map(len, parts))]

    def __len__(self) -> int:
        return self._starts[-1]

    def _example(self, index: int) -> Example:
        part = bisect_right(self._starts, index) - 1
        return self._parts[part][index - self._starts[part]]

    def representatives(self) -> Sequence[Example]:
        return list(chain.from_iterable(map(representatives, self._parts)))

    def take(self, indices: NDArray[np.int64]) -> "JoinedExamples":
        return JoinedExamples([[self._example(int(index)) for index in indices]])


def joined(parts: Sequence[Sequence[Example]]) -> Sequence[Example]:
    """Sequences of examples as one."""
    if len(parts) == 1:
        return parts[0]
    if any(isinstance(part, LargeExamples) for part in parts):
        return JoinedExamples(parts)
    return [example for part in parts for example in part]


def taken(examples: Sequence[Example], indices: NDArray[np.int64]) -> Sequence[Example]:
    """The examples of those numbers."""
    if isinstance(examples, LargeExamples):
        return examples.take(indices)
    return tuple(examples[index] for index in indices.tolist())
