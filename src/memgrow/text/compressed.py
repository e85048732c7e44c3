"""Bytes of a file that is plain, .gz or .zip, read as a stream; whatever is broken becomes a sentence."""

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Protocol, cast

from memgrow.errors import DataError

_BUFFER = 1 << 18
# OSError is among them because gzip and bz2 report damage that way; EOFError is an archive cut short.
_DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


class ByteStream(Protocol):
    """What the readers of formats need of a stream."""

    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A stream of uncompressed bytes, the name of what it is, and how far the file on disk has been read."""

    stream: ByteStream
    name: PurePath
    position: Callable[[], int]


@contextmanager
def unpacked(path: Path) -> Iterator[Unpacked]:
    """The bytes of a file, or of the first file in its archive; errors while they are read name the path."""
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; give the file inside it")
        if not path.exists():
            raise DataError(f"{path} does not exist; check the spelling, or download it first")
        if not path.is_file():
            raise DataError(f"{path} is not a regular file and cannot be read twice; save it as a file first")
        with path.open("rb", buffering=_BUFFER) as disk:
            match path.suffix.lower():
                case ".gz":
                    with io.BufferedReader(gzip.GzipFile(fileobj=disk), _BUFFER) as stream:
                        yield Unpacked(stream, path.with_suffix(""), disk.tell)
                case ".zip":
                    with zipfile.ZipFile(disk) as archive:
                        member = _first(path, archive)
                        with io.BufferedReader(_member(path, archive, member), _BUFFER) as stream:
                            yield Unpacked(stream, PurePath(member.filename), disk.tell)
                case _:
                    yield Unpacked(disk, path, disk.tell)
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason}); it may be damaged or cut off: get it again") from error


def _first(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    for member in archive.infolist():
        if not member.is_dir():
            return member
    raise DataError(f"{path} is an archive without any file; give one that holds a file")


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> io.BufferedIOBase:
    try:
        return cast(io.BufferedIOBase, archive.open(member))
    except RuntimeError as error:  # a password, or a compression that Python does not know
        raise DataError(f"{path} cannot be unpacked ({error}); unpack it first, give the file inside") from error
