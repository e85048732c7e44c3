"""The lines of data files, plain or in gzip, within bounds, with a sentence for every one that cannot be read.

A file may come from anywhere, so that there are bounds to what a line may hold and to what may come out of an archive.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from memgrow.data.arrow_files import COLUMNAR
from memgrow.errors import DataError, SettingsError

LONGEST_ROW = 1 << 24  # bytes: more than two thousand pages; a longer one must not fill the memory
MOST_EMPTY = 100_000  # empty lines one after another: nobody's data has so many, and billions take an hour
MOST_UNPACKED = 200  # times its size; text becomes 3 to 10 times smaller, and at most 1,000 times
ALWAYS_UNPACKED = 1 << 24  # bytes, however small the archive is


BOMS = {  # longest first
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
MARK = "\ufeff"  # a BOM that was decoded: encodings such as utf-16-le leave it in the text
DELIMITER_NAMES = {"tab": "\t", "\\t": "\t"}  # as people write them on a command line
AT_ONCE = 1 << 16  # bytes that are decoded together where there need be no lines


@dataclass(frozen=True)
class FileFormat:
    """How a file is written, where somebody says so: what stands between the fields of a CSV, and the encoding."""

    delimiter: str | None = None  # None: a comma, or what else the header has between its names
    encoding: str | None = None  # None: UTF-8, or UTF-16 or UTF-32 where the first bytes say so

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", DELIMITER_NAMES.get(self.delimiter.lower(), self.delimiter))
            if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
                raise SettingsError(
                    f"the delimiter {self.delimiter!r} cannot stand between fields; give one character, such as ;"
                )
        try:
            if self.encoding is not None and not codecs.lookup(self.encoding)._is_text_encoding:
                raise LookupError
        except (LookupError, ValueError):
            raise SettingsError(
                f"there is no encoding {self.encoding!r}; give one that Python knows, such as utf-8, latin-1 or cp1252"
            ) from None

    def encoding_of(self, path: Path) -> str:
        """The encoding of a file: what was said, or what its first bytes say."""
        if self.encoding is not None:
            return codecs.lookup(self.encoding).name
        with opened(path) as file:
            start = file.read(4)
        return next((name for bom, name in BOMS.items() if start.startswith(bom)), UTF8)

    def encoding_of_lines(self) -> str:
        """The encoding of standard input, whose lines are told by their ends before they are decoded."""
        name = UTF8 if self.encoding is None else codecs.lookup(self.encoding).name
        if name in (UTF8, UTF8_WITH_BOM):
            return UTF8
        if "\n".encode(name) != b"\n":
            raise SettingsError(
                f"{name} has other ends of lines, and standard input is read line by line: give a file, or convert it"
            )
        return name


UTF8, UTF8_WITH_BOM = "utf-8", "utf-8-sig"
AS_IT_IS = FileFormat()


def where(path: Path, line: int) -> str:
    """The place of something in a file, as every message says it."""
    return f"{path.name}, {'row' if path.name.lower().endswith(COLUMNAR) else 'line'} {line}"


def unreadable(path: Path, error: OSError | ValueError) -> DataError:
    reason = getattr(error, "strerror", None) or error
    return DataError(f"{path} cannot be read ({reason}); check the file and its permissions")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A plain or compressed file; what is wrong with it becomes a sentence."""
    try:
        with gzip.open(path) if is_compressed(path) else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} cannot be decompressed ({error}); it is damaged, cut short or no gzip file: fetch it again, or "
            "take .gz off its name if it is not compressed"
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None


def raw_lines(path: Path, encoding: str = UTF8) -> Iterator[tuple[int, bytes]]:
    """The lines of a plain or compressed file with their numbers and their ends; of other encodings, in UTF-8."""
    number = empty = 0
    bound = _Unpacked(path)
    try:
        with gzip.open(path) if is_compressed(path) else path.open("rb") as file:
            plain = cast(IO[bytes], file)
            lines = bounded_lines(plain) if encoding == UTF8 else _transcoded_lines(plain, encoding)
            for number, line in enumerate(lines, start=1):
                if len(line) > LONGEST_ROW:
                    raise too_long(where(path, number))
                empty = empty + 1 if line.isspace() else 0
                if empty > MOST_EMPTY:
                    raise DataError(
                        f"{where(path, number)}: there are {MOST_EMPTY:,} empty lines before it; remove them"
                    )
                bound.add(len(line))
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} cannot be decompressed after line {number} ({error}); it is damaged, cut short or no gzip file: "
            "fetch it again, or take .gz off its name if it is not compressed"
        ) from None
    except UnicodeError as error:
        raise _undecodable(where(path, number + 1), encoding, error) from None
    except OSError as error:
        raise unreadable(path, error) from None


class _Unpacked:
    """Counts what comes out of an archive, and refuses one that unpacks to far more than a text would."""

    def __init__(self, path: Path) -> None:
        self._path, self._count = path, 0
        size = path.stat().st_size if is_compressed(path) and path.exists() else None
        self._most = None if size is None else max(MOST_UNPACKED * size, ALWAYS_UNPACKED)

    def add(self, count: int) -> None:
        self._count += count
        if self._most is not None and self._count > self._most:
            raise DataError(
                f"{self._path} unpacks to more than {MOST_UNPACKED} times its size, which is hardly a text; if it is "
                "one all the same, unpack it first and give the plain file"
            )


def _transcoded_lines(file: IO[bytes], encoding: str) -> Iterator[bytes]:
    text = io.TextIOWrapper(file, encoding, newline="\n")
    for line in iter(partial(text.readline, LONGEST_ROW + 1), ""):
        yield line.encode()


def _undecodable(place: str, encoding: str, error: UnicodeError) -> DataError:
    reason = getattr(error, "reason", None) or error
    return DataError(f"{place} is not {encoding} ({reason}); name its encoding with --encoding, or save it as UTF-8")


def text_chunks(path: Path, file_format: FileFormat = AS_IT_IS) -> Iterator[str]:
    """The text of a file in pieces, for formats that need no lines."""
    encoding, bound = file_format.encoding_of(path), _Unpacked(path)
    decoder = codecs.getincrementaldecoder(UTF8_WITH_BOM if encoding == UTF8 else encoding)()
    begun = False
    with opened(path) as file:
        while piece := file.read(AT_ONCE):
            bound.add(len(piece))
            try:
                text = decoder.decode(piece)
            except UnicodeError as error:
                raise _undecodable(str(path), encoding, error) from None
            yield text if begun else text.removeprefix(MARK)
            begun = begun or bool(text)
        try:
            yield decoder.decode(b"", final=True)
        except UnicodeError as error:
            raise _undecodable(str(path), encoding, error) from None


def bounded_lines(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """The lines of a file or of standard input; of one that is too long only so much that this can be told."""
    return iter(partial(file.readline, LONGEST_ROW + 1), b"")


def line_chunks(file: IO[bytes], size: int = 1024) -> Iterator[list[bytes]]:
    """Lists of at most `size` lines as they arrive: a reader of a pipe need not wait for its end."""
    rest = b""
    while block := file.read1(AT_ONCE):  # type: ignore[attr-defined]
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > LONGEST_ROW:
            raise too_long("standard input")
        yield from (lines[start : start + size] for start in range(0, len(lines), size))
    if rest:
        yield [rest]


def input_lines(
    lines: Iterable[bytes], file_format: FileFormat = AS_IT_IS, first: int = 1
) -> Iterator[tuple[str, str]]:
    """The lines of standard input as text without their ends, each with its place; `first` is the first's number."""
    encoding = file_format.encoding_of_lines()
    for number, raw in enumerate(lines, first):
        place = f"standard input, line {number}"
        if len(raw) > LONGEST_ROW:
            raise too_long(place)
        try:
            line = raw.decode(UTF8_WITH_BOM if number == 1 and encoding == UTF8 else encoding)
        except UnicodeError as error:
            raise DataError(f"{place}: this is not {encoding.upper()} text; convert it first") from error
        yield place, line.rstrip("\r\n")


def too_long(place: str) -> DataError:
    """The error of a row that would fill the memory."""
    return DataError(
        f"{place} has a row of more than {LONGEST_ROW >> 20} MB; close every quote, end every line, or cut the texts, "
        "of which a model reads the beginning alone"
    )


def text_lines(path: Path, file_format: FileFormat = AS_IT_IS) -> Iterator[tuple[int, str]]:
    """The lines of a file, decoded one by one, so that an error can say which line it is on."""
    for number, line in raw_lines(path, file_format.encoding_of(path)):
        try:
            yield number, line.decode(UTF8_WITH_BOM if number == 1 else UTF8)
        except UnicodeDecodeError as error:
            advice = "save the file as UTF-8, or name its encoding with --encoding (Excel writes cp1252 or latin-1)"
            raise DataError(
                f"{where(path, number)} is not UTF-8 (byte {error.start + 1} of the line); {advice}"
                + ("" if is_compressed(path) else ", or add .gz to its name if it is compressed")
            ) from None


def is_compressed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")
