"""The C library's allocator while an encoder trains on a CPU: what a step frees is kept for the next one.

The gradient of an encoder's table of word pieces is larger than any block that glibc keeps: each step would get all its
pages from the kernel again, which clears them first. On two cores a step of MiniLM took 0.19 s so, and 0.17 s with them
kept; all numbers are the same. Other C libraries, and settings that somebody has made, are left alone.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # parameters of mallopt, as malloc.h numbers them
KEEPING = {MMAP_MAX: 0, TRIM_THRESHOLD: 2**31 - 1}
# Afterwards: as much as glibc comes to keep by itself. What it starts with cannot be had again.
USUAL = {MMAP_MAX: 65_536, MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 64 << 20}
SAID = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "LD_PRELOAD")

_lock = threading.Lock()
_within = 0  # trainings in this process: the last one to end gives the memory back


def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is glibc and nobody has told it or another allocator what to keep."""
    if os.name != "posix" or any(os.environ.get(name) for name in SAID):
        return None
    library = ctypes.CDLL(None)
    known = all(hasattr(library, name) for name in ("gnu_get_libc_version", "mallopt", "malloc_trim"))
    return library if known else None


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Within, memory that is freed stays with the process; at the end it is given back."""
    global _within
    library = _glibc()
    if library is None:
        yield
        return
    with _lock:
        _within += 1
        _set(library, KEEPING)
    try:
        yield
    finally:
        with _lock:
            _within -= 1
            if not _within:
                _set(library, USUAL)
                library.malloc_trim(ctypes.c_size_t(0))


def _set(library: ctypes.CDLL, parameters: dict[int, int]) -> None:
    for parameter, value in parameters.items():
        library.mallopt(parameter, value)
