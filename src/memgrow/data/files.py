"""Data files: the rows of JSONL, CSV and TSV, plain or compressed with gzip; what a file's name says; and writing them.

Files are read line by line, and every error names the file and the line. `READERS` is the table of formats.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.splits import PART_NAMES, PARTS
from memgrow.errors import DataError
from memgrow.storage import atomic_open

LONGEST_FIELD = 2**31 - 1  # the csv module stops at 131,072 characters unless told otherwise
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
            return path.resolve().parent.name or name, part
        for joint in JOINTS:
            ending = joint + called
            if name.lower().endswith(ending) and name.lower() != ending:
                return name[: -len(ending)], part
    return name, None


def where(path: Path, line: int) -> str:
    """The place of something in a file, as every message says it."""
    return f"{path.name}, line {line}"


def check_file(path: Path) -> Reader:
    """The reader for a file; refuses what is not there, is a folder, or is of no known format."""
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; name the files in it one by one")
        if not path.exists():
            raise DataError(f"{path} does not exist; check the name and the folder")
    except OSError as error:
        raise _unreadable(path, error) from None
    return _name_and_reader(path)[1]


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be read ({error.strerror or error}); check the file and its permissions")


def _name_and_reader(path: Path) -> tuple[str, Reader]:
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    for suffix, reader in READERS.items():
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)], reader
    raise DataError(
        f"{path} is not of a known format; give a file whose name ends in {', '.join(READERS)}, alone or with .gz"
    )


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a plain or compressed file in any encoding, with their numbers and their ends."""
    number = 0
    try:
        with gzip.open(path) if _is_compressed(path) else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} cannot be decompressed after line {number} ({error}); it is damaged, cut short or no gzip file: "
            "fetch it again, or take .gz off its name if it is not compressed"
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from None


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
    if csv.field_size_limit() < LONGEST_FIELD:
        csv.field_size_limit(LONGEST_FIELD)
    # Strict, since otherwise a quote that is never closed swallows the rest of the file without a word.
    reader = csv.reader((line for _, line in _lines(path)), strict=True)

    def records() -> Iterator[tuple[int, list[str]]]:
        start = 1
        try:
            for fields in reader:
                yield start, fields
                start = reader.line_num + 1
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
    names = [name.strip() for name in names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{where(path, header)} names the column {', '.join(twice)} more than once; give each column its own name"
        )
    for line, fields in filled:
        if len(fields) != len(names):
            raise DataError(
                f"the row at {where(path, line)} has {len(fields)} fields, but the header has {len(names)} "
                f"({', '.join(names)}); give every row as many fields as the header"
            )
        yield Row(line, dict(zip(names, fields, strict=True)), header)


READERS: dict[str, Reader] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json-lines": _json_rows,
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
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
