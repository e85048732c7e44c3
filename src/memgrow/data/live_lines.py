"""Lines of standard input as they come: who waits for answers gets them before the input ends."""

import os
import select
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TypeVar

from memgrow.data.lines import LONGEST_ROW

BLOCK = 1 << 16  # bytes that are asked for at once: as many as a pipe holds

Item = TypeVar("Item")


class LiveLines:
    """The lines of a pipe, a terminal or a file, and whether one has to wait for the next."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._read, self._ended = file, bytearray(), False
        try:
            self._number: int | None = file.fileno()
        except (AttributeError, OSError):
            self._number = None  # all of it is in memory

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._line, b"")

    def waiting(self) -> bool:
        """Whether there is nothing to be read at this moment, but may be later."""
        if self._number is None or self._ended or b"\n" in self._read:
            return False
        try:
            return not select.select([self._number], [], [], 0)[0]
        except OSError:  # Windows knows this of sockets alone: then each line is answered by itself
            return True

    def _line(self) -> bytes:
        """A line with its end; of one that is too long only so much that this can be told."""
        if self._number is None:
            return self._file.readline(LONGEST_ROW + 1)
        seen = 0
        while (end := self._read.find(b"\n", seen)) < 0 and not self._ended and len(self._read) <= LONGEST_ROW:
            seen = len(self._read)
            more = os.read(self._number, BLOCK)
            self._ended = not more
            self._read += more
        length = min(end + 1 if end >= 0 else len(self._read), LONGEST_ROW + 1)
        line = bytes(self._read[:length])
        del self._read[:length]
        return line


def as_they_come(items: Iterable[Item], size: int, waiting: Callable[[], bool]) -> Iterator[list[Item]]:
    """Lists of at most `size` items: those that are there when one would have to wait for the next."""
    chunk: list[Item] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size or waiting():
            yield chunk
            chunk = []
    if chunk:
        yield chunk
