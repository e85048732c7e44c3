"""The lines of data files, plain or in gzip, within bounds, with a sentence for every one that cannot be read.

A file may come from anywhere, so that there are bounds to what a line may hold and to what may come out of an archive.
"""

import gzip
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

from memgrow.data.arrow_files import COLUMNAR
from memgrow.errors import DataError

LONGEST_ROW = 1 << 24  # bytes: more than two thousand pages; a longer one must not fill the memory
MOST_EMPTY = 100_000  # empty lines one after another: nobody's data has so many, and billions take an hour
MOST_UNPACKED = 200  # times its size; text becomes 3 to 10 times smaller, and at most 1,000 times
ALWAYS_UNPACKED = 1 << 24  # bytes, however small the archive is


def where(path: Path, line: int) -> str:
    """The place of something in a file, as every message says it."""
    return f"{path.name}, {'row' if path.name.lower().endswith(COLUMNAR) else 'line'} {line}"


def unreadable(path: Path, error: OSError | ValueError) -> DataError:
    reason = getattr(error, "strerror", None) or error
    return DataError(f"{path} cannot be read ({reason}); check the file and its permissions")


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a plain or compressed file in any encoding, with their numbers and their ends."""
    number = unpacked = empty = 0
    try:
        most = max(MOST_UNPACKED * path.stat().st_size, ALWAYS_UNPACKED) if is_compressed(path) else None
        with gzip.open(path) if is_compressed(path) else path.open("rb") as file:
            for number, line in enumerate(bounded_lines(file), start=1):
                if len(line) > LONGEST_ROW:
                    raise too_long(where(path, number))
                empty = empty + 1 if line.isspace() else 0
                unpacked += len(line)
                if empty > MOST_EMPTY:
                    raise DataError(
                        f"{where(path, number)}: there are {MOST_EMPTY:,} empty lines before it; remove them"
                    )
                if most is not None and unpacked > most:
                    raise DataError(
                        f"{path} unpacks to more than {MOST_UNPACKED} times its size, which is hardly a text; if it is "
                        "one all the same, unpack it first and give the plain file"
                    )
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} cannot be decompressed after line {number} ({error}); it is damaged, cut short or no gzip file: "
            "fetch it again, or take .gz off its name if it is not compressed"
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None


def bounded_lines(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """The lines of a file or of standard input; of one that is too long only so much that this can be told."""
    return iter(partial(file.readline, LONGEST_ROW + 1), b"")


def too_long(place: str) -> DataError:
    """The error of a row that would fill the memory."""
    return DataError(
        f"{place} has a row of more than {LONGEST_ROW >> 20} MB; close every quote, end every line, or cut the texts, "
        "of which a model reads the beginning alone"
    )


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, decoded one by one, so that an error can say which line it is on."""
    for number, line in raw_lines(path):
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{where(path, number)} is not UTF-8 (byte {error.start + 1} of the line); save the file as UTF-8"
                + ("" if is_compressed(path) else ", or add .gz to its name if it is compressed")
            ) from None


def is_compressed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")
