"""The rows of word-vector files: GloVe's text, word2vec's text and word2vec's binary, each plain, .gz or .zip.

Files are read as streams, since they may be larger than the memory; whatever is broken in them becomes a sentence that
names the file and the line or row. Numbers are parsed only for the rows that are wanted.
"""

import gzip
import io
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from memgrow.errors import DataError, brief

Row = NDArray[np.float32]

_BUFFER = 1 << 18
_LONGEST = 1 << 20  # bytes of a line or a word: anything longer is no vector file, and must not fill the memory
_LARGEST = 1 << 16  # numbers in a row
_MOST_EMPTY = 100_000  # lines: a small archive may unpack to billions of them
_HEADER = re.compile(rb"\s*(\d{1,18})\s+(\d{1,18})\s*")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_SPACE, _PLUS, _MINUS, _DOT, _ZERO = b" +-.0"
_DIGITS = 15  # this many make a whole number that a double holds exactly, and one division then rounds once
_POWERS = 10 ** np.arange(_DIGITS + 1)
# OSError is among them because gzip and bz2 report damage that way; EOFError is an archive cut short.
_DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


class ByteStream(Protocol):
    """The part of a binary file that the readers of rows use."""

    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A stream of uncompressed bytes, what their file is called, and how far the file on disk has been read."""

    stream: ByteStream
    name: PurePath
    position: Callable[[], int]


@contextmanager
def unpacked(path: Path) -> Iterator[Unpacked]:
    """Open a file, or the first file in its archive; errors while it is read name the path."""
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
                    with _archive(path, disk) as archive:
                        member = _first(path, archive)
                        with io.BufferedReader(_member(path, archive, member), _BUFFER) as stream:
                            yield Unpacked(stream, PurePath(member.filename), disk.tell)
                case _:
                    yield Unpacked(disk, path, disk.tell)
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason}); it may be damaged or cut off: get it again") from error


def _archive(path: Path, disk: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(disk)
    except (ValueError, LookupError, struct.error, NotImplementedError) as error:  # in its table of contents
        raise DataError(f"{path} is no archive that can be read ({brief(error)}); get it again") from error


def _first(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    for member in archive.infolist():
        if member.filename and not member.is_dir():
            return member
    raise DataError(f"{path} is an archive without any file; give one that holds a file")


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> io.BufferedIOBase:
    try:
        return cast(io.BufferedIOBase, archive.open(member))
    except (RuntimeError, ValueError) as error:  # a password, or a compression or a place that Python does not know
        raise DataError(f"{path} cannot be unpacked ({error}); unpack it first, give the file inside") from error


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout that the start of a file tells: numbers in a row, rows (if there is a header), text or binary."""

    size: int
    count: int | None
    binary: bool


@dataclass(slots=True)
class RawRow:
    """One row of a file with its line or, in binary files, its row, counted from 1; the numbers are not parsed yet."""

    position: int
    word: str
    numbers: bytes


def detect(path: Path) -> Layout:
    """The layout of a vector file, from its header or its first row."""
    with unpacked(path) as file:
        first = file.stream.readline(_LONGEST)
        second = file.stream.readline(_LONGEST)
        binary_name = file.name.suffix.lower() == ".bin"
    if not first:
        raise DataError(f"{path} is empty; give word vectors in the GloVe or the word2vec format")
    if header := _HEADER.fullmatch(first):
        count, size = map(int, header.groups())
        if not (count and 0 < size <= _LARGEST):
            raise DataError(f"{path}, line 1 promises {count} vectors of {size} numbers; give a file that holds some")
        return Layout(size, count, binary_name or (bool(second) and not _is_text(second)))
    fields = first.split()
    size = next((i for i, field in enumerate(reversed(fields)) if not _is_number(field)), len(fields))
    size = min(size, len(fields) - 1)  # the first field is the word, even where the word is a number
    if binary_name or not 0 < size <= _LARGEST:
        raise DataError(
            f"{path} is not a vector file: its first line is neither a word and its numbers nor a word2vec header; "
            "give word vectors in the GloVe or the word2vec format"
        )
    return Layout(size, None, binary=False)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _is_text(line: bytes) -> bool:
    """Whether a first row ends with a written number; raw floats up to their first newline byte hardly ever do."""
    fields = line.split()
    return len(fields) > 1 and _is_number(fields[-1]) and not _CONTROL.search(line)


def text_rows(stream: ByteStream, layout: Layout, path: Path) -> Iterator[RawRow]:
    """The rows of a GloVe or word2vec text file, each checked for its number of fields."""
    line_number = rows = empty = 0
    if layout.count is not None:
        stream.readline(_LONGEST)
        line_number = 1
    while line := stream.readline(_LONGEST):
        line_number += 1
        line = line.rstrip().replace(b"\t", b" ")
        if not line:
            empty += 1
            if empty > _MOST_EMPTY:
                raise DataError(f"{path}, line {line_number}: there are {_MOST_EMPTY:,} empty lines; remove them")
            continue
        if line.count(b" ") == layout.size:
            word, _, numbers = line.partition(b" ")
        else:
            word, numbers = _from_the_right(line, layout.size, f"{path}, line {line_number}")
        try:
            spelling = word.decode()
        except UnicodeDecodeError as error:
            where = f"{path}, line {line_number}"
            raise DataError(f"{where}: the word is not UTF-8 text; convert the file to UTF-8") from error
        yield RawRow(line_number, spelling, numbers)
        rows += 1
    if layout.count is not None and rows < layout.count:
        raise DataError(f"{path} promises {layout.count} rows but ends after {rows}; it is cut off: get it again")


def _from_the_right(line: bytes, size: int, where: str) -> tuple[bytes, bytes]:
    """The word and the numbers of a line where the word holds spaces."""
    word, *numbers = line.rsplit(None, size)
    excess = word.split()[1:]
    # "route 66" may be a word, but 0.25 or -1 in front of the numbers is one number too many.
    too_many = bool(excess) and _is_number(excess[-1]) and not excess[-1].isalnum()
    if len(numbers) < size or too_many:
        raise _wrong_length(where, sum(map(_is_number, [*excess, *numbers])), size)
    return word, b" ".join(numbers)


def _wrong_length(where: str, found: int, size: int) -> DataError:
    return DataError(
        f"{where} has a vector of length {found}, but the vectors of this file have length {size}; "
        "repair or remove the line"
    )


def text_vectors(rows: Sequence[RawRow], size: int, path: Path) -> list[Row]:
    """Parse rows of a text file; one by one where a number is not plain, to find what is wrong with it."""
    parsed = parse_decimals([row.numbers for row in rows], size)
    if parsed is None:
        return [_text_row(row.numbers, size, f"{path}, line {row.position}") for row in rows]
    parsed.flags.writeable = False
    return list(parsed)


def _text_row(numbers: bytes, size: int, where: str) -> Row:
    try:
        row = np.array(numbers.split(), dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{where} holds something that is not a number; repair or remove it") from error
    if len(row) != size:
        raise _wrong_length(where, len(row), size)
    return _finite(row, where)


def parse_decimals(rows: Sequence[bytes], size: int) -> NDArray[np.float32] | None:
    """Rows of numbers with single spaces between them, as (rows, size), to the same bits as Python's `float`.

    None unless all are plain, such as -0.25, .5 or 12. All digits of a block are read at once, as vectors: measured on
    32 rows of 300 numbers, 0.8 ms where `np.array(row.split())`, `np.fromstring` and `np.loadtxt` take 1.6 to 1.9.
    """
    text = np.frombuffer(b" ".join(rows) + b" ", dtype=np.uint8)
    ends = np.flatnonzero(text == _SPACE)  # (rows * size,)
    if len(ends) != len(rows) * size:
        return None
    digits = text - _ZERO  # what is below "0" wraps around, far above 9
    places = np.flatnonzero(digits < 10)
    count = np.cumsum(digits < 10, dtype=np.int32)  # digits up to each character
    upto = count[ends]  # digits up to the end of each number
    before = np.concatenate(([0], upto[:-1]))
    lengths = upto - before
    if not 0 < lengths.min() <= lengths.max() <= _DIGITS:
        return None
    powers = _POWERS[np.repeat(upto, lengths) - count[places]]
    whole = np.add.reduceat(digits[places] * powers, before)  # each number without its dot
    dots = np.flatnonzero(text == _DOT)
    dotted = np.searchsorted(ends, dots)  # the numbers that they are in
    first = text[np.concatenate(([0], ends[:-1] + 1))]
    signed = int(np.count_nonzero((first == _MINUS) | (first == _PLUS)))
    if len(places) + len(dots) + len(ends) + signed != len(text) or np.any(np.diff(dotted) == 0):
        return None
    decimals = np.zeros(len(ends), dtype=np.intp)
    decimals[dotted] = upto[dotted] - count[dots]
    values = whole / _POWERS[decimals]
    np.negative(values, where=first == _MINUS, out=values)
    return values.astype(np.float32).reshape(len(rows), size)


def binary_rows(stream: ByteStream, layout: Layout, path: Path) -> Iterator[RawRow]:
    """The rows of a word2vec binary file, as many as its header promises."""
    stream.readline(_LONGEST)
    width = 4 * layout.size
    buffer, start = b"", 0
    for row in range(1, (layout.count or 0) + 1):
        while (space := buffer.find(b" ", start)) < 0 or len(buffer) <= space + width:
            if space < 0 and len(buffer) - start > _LONGEST:
                raise DataError(f"{path}, row {row} has a word without end; give a word2vec binary file")
            chunk = stream.read(_BUFFER)
            if not chunk:
                raise DataError(f"{path} ends inside row {row} of {layout.count}; it is cut off: get it again")
            buffer, start = buffer[start:] + chunk, 0
        end = space + 1 + width
        word = buffer[start:space].lstrip(b"\r\n").decode(errors="replace")
        yield RawRow(row, word, buffer[space + 1 : end])
        start = end


def binary_vectors(rows: Sequence[RawRow], size: int, path: Path) -> list[Row]:
    """Parse rows of a binary file."""
    return [
        _finite(np.frombuffer(row.numbers, dtype="<f4", count=size).astype(np.float32), f"{path}, row {row.position}")
        for row in rows
    ]


def _finite(row: Row, where: str) -> Row:
    if not np.isfinite(row).all():
        raise DataError(f"{where} holds a number that is not finite; repair or remove it")
    row.flags.writeable = False  # words that differ in case share a row
    return row
