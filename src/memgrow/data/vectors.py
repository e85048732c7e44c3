"""Word vectors from GloVe and word2vec files, which are streamed: they may be larger than memory."""

import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from memgrow.data.disk import Unpacked, sha256_of
from memgrow.errors import DataError

Row = NDArray[np.float32]

BUFFER = 1 << 18
MAX_LINE = 1 << 20  # bytes of a line or a word
MAX_SIZE = 1 << 16  # numbers in a row
HEADER = re.compile(rb"\s*(\d{1,18})\s+(\d{1,18})\s*")
SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """The vectors that a file has for the words asked for; rows are read-only."""

    size: int  # numbers in a row
    rows: Mapping[str, Row]  # by the word as asked for


@dataclass(frozen=True, slots=True)
class Layout:
    """Numbers in a row and, if there is a header, the number of rows."""

    size: int
    count: int | None = None


def read_vectors(path: str | Path, words: Iterable[str]) -> Vectors:
    """The vectors of words as written, lower-cased or capitalized, in a text file, plain or .gz."""
    path = Path(path)
    layout = detect(path)
    wanted: dict[str, list[tuple[int, str]]] = {}  # spelling in the file: words it serves, and how well (0 is best)
    for word in dict.fromkeys(words):
        for rank, spelling in enumerate(dict.fromkeys((word, word.lower(), word.capitalize()))):
            wanted.setdefault(spelling, []).append((rank, word))
    rows: dict[str, Row] = {}
    ranks: dict[str, int] = {}
    with _opened(path) as file:
        for place, spelling, numbers in _text_rows(file, layout, path):
            served = wanted.get(spelling, ())
            better = {word: rank for rank, word in served if word not in ranks or rank < ranks[word]}
            if better:
                ranks |= better
                rows |= dict.fromkeys(better, _parse(numbers, layout, place))
    return Vectors(layout.size, rows)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    if not path.is_file():
        raise DataError(f"{path} does not exist, or is not a file; check the name, or download it first")
    try:
        with io.BufferedReader(Unpacked(path) if path.suffix.lower() == ".gz" else path.open("rb", 0), BUFFER) as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read ({reason}); it may be damaged: get it again, or unpack it") from error


def detect(path: Path) -> Layout:
    """The layout of a vector file, from its name and its header or first row."""
    if path.name.lower().removesuffix(".gz").endswith(".bin"):
        raise DataError(f"{path} is binary: save it as text (in gensim: KeyedVectors.save_word2vec_format)")
    with _opened(path) as file:
        first = file.readline(MAX_LINE)
    if header := HEADER.fullmatch(first):
        count, size = map(int, header.groups())
        if not (count and 0 < size <= MAX_SIZE):
            raise DataError(f"{path}, line 1 promises {count} vectors of {size} numbers; give a file that holds some")
        return Layout(size, count)
    fields = first.split()
    size = next((i for i, field in enumerate(reversed(fields)) if not _is_number(field)), len(fields))
    size = min(size, len(fields) - 1)  # the first field is the word, even where the word is a number
    if not 0 < size <= MAX_SIZE:
        raise DataError(f"{path} is not a vector file: line 1 is neither a word with numbers nor a word2vec header")
    return Layout(size)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _text_rows(file: IO[bytes], layout: Layout, path: Path) -> Iterator[tuple[str, str, bytes]]:
    """The rows as (place, word, numbers), each checked for its number of fields."""
    rows, number = 0, 0
    while line := file.readline(MAX_LINE):
        number += 1
        line = line.rstrip().replace(b"\t", b" ")
        if not line or (number == 1 and layout.count is not None):
            continue
        place = f"{path}, line {number}"
        if line.count(b" ") == layout.size:
            word, _, numbers = line.partition(b" ")
        else:  # the word holds spaces: "route 66" may be one, but 0.25 or -1 is a number too many
            word, *fields = line.rsplit(None, layout.size)
            excess = word.split()[1:]
            if len(fields) < layout.size or (excess and _is_number(excess[-1]) and not excess[-1].isalnum()):
                raise DataError(f"{place} does not have {layout.size} numbers as the first row; repair or remove it")
            numbers = b" ".join(fields)
        try:
            yield place, word.decode(), numbers
        except UnicodeDecodeError as error:
            raise DataError(f"{place}: the word is not UTF-8 text; convert the file to UTF-8") from error
        rows += 1
    if layout.count is not None and rows < layout.count:
        raise DataError(f"{path} promises {layout.count} rows but ends after {rows}; it is cut off: get it again")


def _parse(numbers: bytes, layout: Layout, place: str) -> Row:
    try:
        row = np.array(list(map(float, numbers.split())), np.float32)
    except ValueError as error:
        raise DataError(f"{place} holds something that is not a number; repair or remove it") from error
    if len(row) != layout.size or not np.isfinite(row).all():
        raise DataError(f"{place} does not have {layout.size} finite numbers; repair or remove it")
    row.flags.writeable = False  # spellings share a row
    return row


@dataclass(frozen=True)
class RememberedVectors:
    """The vectors a model started with: a file's name and checksum; no path, which could name any file."""

    name: str  # without folders
    sha256: str | None = None  # None: of a model before 0.2

    @classmethod
    def given(cls, path: str | Path) -> "RememberedVectors":
        path = Path(path)
        found = path.stat()
        return cls(os.fsencode(path.name).decode(errors="replace"), _checksum(path, found.st_size, found.st_mtime_ns))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "sha256": self.sha256}

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> "RememberedVectors | None":
        """The vectors that a model's configuration names, if any."""
        path, known = config.get("vectors"), config.get("word_vectors")
        if path is None and known is None:
            return None
        name, sha256 = (path, None) if known is None else (known["name"], known["sha256"])
        if not isinstance(name, str) or not (sha256 is None or SHA256.fullmatch(sha256)):
            raise ValueError("word vectors are known by the name of a file and its checksum")
        return cls(re.split(r"[/\\]", name)[-1][:255], sha256)


@lru_cache(maxsize=4)  # each domain of a stream asks, and the file may have gigabytes
def _checksum(path: Path, *identity: int) -> str:
    return sha256_of(path)
