"""Scratch files: what does not fit in memory is written from front to back, and then read at any place.

A scratch file has no name where the system allows that, so that it is gone with its process, however that ends, and
nobody else can open it. It is mapped into memory to be read; pages that have been read are given back now and then, so
that a process is never as large as its files.
"""

import mmap
import tempfile
from collections.abc import Iterable

from memgrow.errors import DataError
from memgrow.places import scratch_folder

BUFFER = 1 << 20  # bytes that are written at once
FAULT = 1 << 16  # bytes that the system may map around what is read
HELD = 1 << 26  # bytes that may be mapped before they are given back

_GIVE_BACK = getattr(mmap, "MADV_DONTNEED", None)  # not every system has it: there pages stay until memory is short
_READ_AHEAD = getattr(mmap, "MADV_WILLNEED", None)


class ScratchFile:
    """A file that is written first and read after that. It is removed with this object."""

    def __init__(self) -> None:
        self._folder, self.size = scratch_folder(), 0
        self._map: mmap.mmap | None = None
        self._mapped = 0  # bytes that have been touched since pages were last given back
        try:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=BUFFER)  # noqa: SIM115
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, content: bytes | memoryview) -> None:
        """Add to the end."""
        try:
            self._file.write(content)
        except OSError as error:
            raise self._unwritable(error) from None
        self.size += len(content)

    def read(self, start: int, end: int) -> bytes:
        """The bytes from one place to another."""
        if start == end:
            return b""
        content = self._pages()[start:end]
        self._mapped += FAULT + end - start
        if self._mapped > HELD and _GIVE_BACK is not None:
            self._pages().madvise(_GIVE_BACK)  # the file has what they hold
            self._mapped = 0
        return content

    def will_read(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Let the system fetch what will soon be read, in the file's order, while others compute."""
        if _READ_AHEAD is not None and self.size:
            for start, end in sorted(ranges):
                page = start - start % mmap.PAGESIZE
                self._pages().madvise(_READ_AHEAD, page, max(1, end - page))

    def _pages(self) -> mmap.mmap:
        if self._map is None or len(self._map) < self.size:
            try:
                self._file.flush()
            except OSError as error:
                raise self._unwritable(error) from None
            self._map = mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ)
        return self._map

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(
            f"the data is kept on the disk while it is learnt, as it is too large for the memory, but {self._folder} "
            f"cannot hold it ({error.strerror or error}): make room there, or set the variable TMPDIR to another folder"
        )
