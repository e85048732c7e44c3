"""Data files: rows of JSONL, CSV and TSV, plain or in gzip, of Parquet and Arrow; what a file's name says; writing.

Files are read row by row, and every error names the file and the line. `READERS` is the table of formats. A file may
come from anywhere, so that there are bounds to what one line may hold and to what may come out of an archive.
"""

import csv
import gzip
import json
import os
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from memgrow.data.arrow_files import ArrowRow, arrow_values, parquet_values
from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.splits import PART_NAMES, PARTS
from memgrow.errors import DataError, listed
from memgrow.storage import atomic_open

LONGEST_ROW = 1 << 24  # bytes: more than two thousand pages; a longer one must not fill the memory
MOST_COLUMNS = 10_000
MOST_EMPTY = 100_000  # empty lines one after another: nobody's data has so many, and billions take an hour
MOST_UNPACKED = 200  # times its size; text becomes 3 to 10 times smaller, and at most 1,000 times
ALWAYS_UNPACKED = 1 << 24  # bytes, however small the archive is
JOINTS = "_-."  # between the name of a domain and that of a part


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of one row by column, the line on which it begins, and the line that names its columns."""

    line: int
    values: Mapping[str, object]
    header: int


Reader = Callable[[Path], Iterator[Row]]


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, read as its suffix says; at least one, or it is an error."""
    reader = check_file(path)
    empty = True
    for row in reader(path):
        empty = False
        yield row
    if empty:
        raise DataError(f"{path} is empty: it has no rows; give a file with at least one")


def name_without_suffix(path: Path) -> str:
    """The file's name without its format: reviews.jsonl.gz is called reviews."""
    return _name_and_reader(path)[0]


def domain_and_part(path: Path) -> tuple[str, str | None]:
    """The domain and the part: books_train.jsonl.gz is the train part of books, books.csv is books as a whole.

    A file that is called by its part alone, as in books/test.csv, is named after its folder.
    """
    name = name_without_suffix(path)
    for called, part in PART_NAMES.items():
        if name.lower() == called:
            return Path(os.path.realpath(path)).parent.name or name, part
        for joint in JOINTS:
            ending = joint + called
            if name.lower().endswith(ending) and name.lower() != ending:
                return name[: -len(ending)], part
    return name, None


def where(path: Path, line: int) -> str:
    """The place of something in a file, as every message says it."""
    return f"{path.name}, {'row' if path.name.lower().endswith(COLUMNAR) else 'line'} {line}"


def check_file(path: Path) -> Reader:
    """The reader for a file; refuses what is not there, is no file, or is of no known format."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} does not exist; check the name and the folder") from None
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise _unreadable(path, error) from None
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder; name the files in it one by one")
    if not stat.S_ISREG(mode):  # a pipe may wait for ever, and a device may never end
        raise DataError(f"{path} is no regular file but a pipe or a device; save what comes from it as a file first")
    return _name_and_reader(path)[1]


def _unreadable(path: Path, error: OSError | ValueError) -> DataError:
    reason = getattr(error, "strerror", None) or error
    return DataError(f"{path} cannot be read ({reason}); check the file and its permissions")


def _name_and_reader(path: Path) -> tuple[str, Reader]:
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    for suffix, reader in READERS.items():
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            if suffix in COLUMNAR and _is_compressed(path):
                raise DataError(f"{path} is compressed twice; unpack it, and give the file without .gz")
            return name[: -len(suffix)], reader
    lines = ", ".join(suffix for suffix in READERS if suffix not in COLUMNAR)
    raise DataError(
        f"{path} is not of a known format; give a file whose name ends in {lines}, alone or with .gz, or in "
        f"{', '.join(COLUMNAR)}"
    )


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a plain or compressed file in any encoding, with their numbers and their ends."""
    number = unpacked = empty = 0
    try:
        most = max(MOST_UNPACKED * path.stat().st_size, ALWAYS_UNPACKED) if _is_compressed(path) else None
        with gzip.open(path) if _is_compressed(path) else path.open("rb") as file:
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
        raise _unreadable(path, error) from None


def bounded_lines(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """The lines of a file or of standard input; of one that is too long only so much that this can be told."""
    return iter(partial(file.readline, LONGEST_ROW + 1), b"")


def too_long(place: str) -> DataError:
    """The error of a row that would fill the memory."""
    return DataError(
        f"{place} has a row of more than {LONGEST_ROW >> 20} MB; close every quote, end every line, or cut the texts, "
        "of which a model reads the beginning alone"
    )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, decoded one by one, so that an error can say which line it is on."""
    for number, line in raw_lines(path):
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{where(path, number)} is not UTF-8 (byte {error.start + 1} of the line); save the file as UTF-8"
                + ("" if _is_compressed(path) else ", or add .gz to its name if it is compressed")
            ) from None


def _is_compressed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _json_rows(path: Path) -> Iterator[Row]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            values = json.loads(line.rstrip())
        except json.JSONDecodeError as error:
            raise DataError(
                f"{where(path, number)} is not valid JSON ({error.msg}: column {error.colno}); "
                "each line must be one complete JSON object"
            ) from None
        except (ValueError, RecursionError) as error:  # numbers too long and brackets too deep for Python
            raise DataError(f"{where(path, number)} cannot be read as JSON ({error}); put the line right") from None
        if not isinstance(values, dict):
            raise DataError(
                f"{where(path, number)} is not a JSON object; "
                'each line must look like {"text": "...", "label": "..."}'
            )
        yield Row(number, values, header=number)


def _csv_rows(path: Path) -> Iterator[Row]:
    if csv.field_size_limit() <= LONGEST_ROW:  # the csv module stops at 131,072 characters unless told otherwise
        csv.field_size_limit(LONGEST_ROW + 1)
    start, held = 1, 0  # the line on which this row begins, and how much of it has been read

    def lines() -> Iterator[str]:
        nonlocal held
        for _, line in _lines(path):
            held += len(line)
            if held > LONGEST_ROW:
                raise too_long(where(path, start))
            yield line

    def records() -> Iterator[tuple[int, list[str]]]:
        nonlocal start, held
        # Strict, since otherwise a quote that is never closed swallows the rest of the file without a word.
        reader = csv.reader(lines(), strict=True)
        try:
            for fields in reader:
                yield start, fields
                start, held = reader.line_num + 1, 0
        except csv.Error as error:
            raise DataError(
                f"the row at {where(path, start)} is not valid CSV ({error}); close every quote, "
                "and write a quote inside a quoted field twice"
            ) from None

    yield from _table(path, records())


def _tsv_rows(path: Path) -> Iterator[Row]:
    lines = ((number, line.rstrip("\r\n")) for number, line in _lines(path))
    yield from _table(path, ((number, line.split("\t") if line else []) for number, line in lines))


def _table(path: Path, records: Iterator[tuple[int, list[str]]]) -> Iterator[Row]:
    """The rows below a header; empty lines are passed over."""
    filled = ((line, fields) for line, fields in records if fields)
    header, names = next(filled, (1, []))
    if len(names) > MOST_COLUMNS:
        raise DataError(
            f"{where(path, header)} names {len(names):,} columns, but at most {MOST_COLUMNS:,} are read; take out "
            "those that hold no text and no label"
        )
    names = [name.strip() for name in names]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise DataError(
            f"{where(path, header)} names the column {listed(twice)} more than once; give each column its own name"
        )
    for line, fields in filled:
        if len(fields) != len(names):
            raise DataError(
                f"the row at {where(path, line)} has {len(fields)} fields, but the header has {len(names)} "
                f"({listed(names)}); give every row as many fields as the header"
            )
        yield Row(line, dict(zip(names, fields, strict=True)), header)


def _columnar_rows(values: Callable[[Path], Iterator[ArrowRow]], path: Path) -> Iterator[Row]:
    for number, row in enumerate(values(path), start=1):
        if number == 1 and len(row) > MOST_COLUMNS:
            raise DataError(
                f"{path} has {len(row):,} columns, but at most {MOST_COLUMNS:,} are read; take out those that hold no "
                "text and no label"
            )
        yield Row(number, row, header=1)


COLUMNAR = (".parquet", ".arrow", ".feather")
READERS: dict[str, Reader] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json-lines": _json_rows,
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".parquet": partial(_columnar_rows, parquet_values),
    ".arrow": partial(_columnar_rows, arrow_values),
    ".feather": partial(_columnar_rows, arrow_values),
}


def write_jsonl(stream: Stream, folder: str | Path) -> list[Path]:
    """Write each domain to DOMAIN.jsonl in the folder, with a split column; load_stream reads them back."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(domain, folder) for domain in stream]


def _write(domain: Domain, folder: Path) -> Path:
    path = folder / f"{domain.name}.jsonl"
    if path.name != f"{domain.name}.jsonl":
        raise DataError(f"the domain {domain.name!r} cannot name a file in {folder}; rename it without slashes")
    with atomic_open(path) as file:
        for part in PARTS:
            for example in getattr(domain, part):
                file.write((json.dumps(_fields(example) | {"split": part}, ensure_ascii=False) + "\n").encode())
    return path


def _fields(example: Example) -> dict[str, str]:
    if example.reply is not None:
        return {"message": example.text, "response": example.reply}
    texts = {"text": example.text} if example.pair is None else {"premise": example.text, "hypothesis": example.pair}
    return texts if example.label is None else texts | {"label": example.label}
