"""The header of a safetensors file: which tensors follow, and so how long the file must be, before more is read."""

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from memgrow.errors import ModelError

Shapes = dict[str, tuple[int, ...]]

SUFFIX = ".safetensors"
LARGEST_HEADER = 100_000_000  # bytes; the library has the same bound
LARGEST_TEXT = 1 << 27  # bytes of any other file of a model: vocabulary, history, configuration
PREFIX = 8  # bytes that say how long the header is


def check_size(file: BinaryIO, path: Path, most: int = LARGEST_TEXT) -> None:
    """Refuse a file of a model that is not as long as it can be, so that nobody reads gigabytes of nothing.

    `most` is the number of bytes of a file that holds no tensors.
    """
    size = os.fstat(file.fileno()).st_size
    if path.suffix != SUFFIX:
        if size > most:
            raise ModelError(f"{path} has {size >> 20:,} MB, which is no file of a model: copy it again, or go back")
        return
    check_tensors(file, path)


def check_tensors(file: BinaryIO, path: Path) -> None:
    """Refuse a file of tensors that is not as long as its own header says."""
    size = os.fstat(file.fileno()).st_size
    promised = _promised(file)
    file.seek(0)
    if promised != size:
        told = "has no header" if promised is None else f"has {size:,} bytes, and its header tells of {promised:,}"
        raise ModelError(f"{path} is not what was written (it {told}): copy it again, or go back")


def shapes_in(header: bytes) -> Shapes:
    """The shapes of the tensors that a header tells of, by name."""
    return {name: tuple(map(int, one["shape"])) for name, one in _tensors(header).items()}


def stored_shapes(content: bytes | Path) -> Shapes:
    """The same of a whole file, in memory or on the disk."""
    if isinstance(content, bytes):
        length = int.from_bytes(content[:PREFIX], "little")
        return shapes_in(content[PREFIX : PREFIX + length])
    with content.open("rb") as file:
        return shapes_in(file.read(int.from_bytes(file.read(PREFIX), "little")))


def _promised(file: BinaryIO) -> int | None:
    """The length of a file by its own header; None if that is no header."""
    length = int.from_bytes(file.read(PREFIX), "little")
    if not 0 < length <= LARGEST_HEADER:
        return None
    try:
        ends = [_offset(one["data_offsets"][1]) for one in _tensors(file.read(length)).values()]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    return PREFIX + length + max(ends, default=0)


def _offset(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError("it is no place in a file")
    return value


def _tensors(header: bytes) -> dict[str, Any]:
    return {name: one for name, one in json.loads(header).items() if name != "__metadata__"}
