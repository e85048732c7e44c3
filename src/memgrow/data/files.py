"""Data files: rows of JSONL, CSV and TSV, plain or in gzip, of Parquet and Arrow; what a file's name says; writing.

Files are read row by row, and every error names the file and the line. `READERS` is the table of formats.
"""

import csv
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from memgrow.data.arrow_files import COLUMNAR, ArrowRow, arrow_values, parquet_values
from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.lines import (
    AS_IT_IS,
    LONGEST_ROW,
    FileFormat,
    is_compressed,
    text_chunks,
    text_lines,
    too_long,
    unreadable,
    where,
)
from memgrow.data.splits import PART_NAMES, PARTS
from memgrow.errors import DataError, SettingsError, listed, quoted
from memgrow.storage import atomic_open

MOST_COLUMNS = 10_000
DELIMITERS = ",;\t|"  # of CSV files; the first, unless the header has more of another
QUOTED = re.compile(r'"[^"]*"')
SPACE = re.compile(r"\s*")
DECODER = json.JSONDecoder()
FOLLOWS = {"": "[", "[": "{]", "{": ",]", ",": "{"}  # what may come after what, in an array of objects
JOINTS = "_-."  # between the name of a domain and that of a part


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of one row by column, the line on which it begins, and the line that names its columns."""

    line: int
    values: Mapping[str, object]
    header: int


Reader = Callable[[Path, FileFormat], Iterator[Row]]


def read_rows(path: Path, file_format: FileFormat = AS_IT_IS) -> Iterator[Row]:
    """The rows of a file, read as its suffix says; at least one, or it is an error."""
    reader = check_file(path)
    formats_of([path], file_format)  # what it has no use for is not passed over without a word
    empty = True
    for row in reader(path, file_format):
        empty = False
        yield row
    if empty:
        raise DataError(f"{path} is empty: it has no rows; give a file with at least one")


def formats_of(paths: Sequence[Path], given: FileFormat) -> list[FileFormat]:
    """How each of several files is written: what is given is for those that have a use for it, and one must have."""
    takes = {
        "delimiter": [_takes_delimiter(path, given.delimiter) for path in paths],
        "encoding": [not path.name.lower().endswith(COLUMNAR) for path in paths],
    }
    if given.delimiter is not None and not any(takes["delimiter"]):
        raise SettingsError(
            f"a delimiter ({given.delimiter!r}) is given for {paths[0].name}, but only fields of .csv files are "
            "separated by what one likes; leave it out, or rename the file if it is a CSV"
        )
    if given.encoding is not None and not any(takes["encoding"]):
        raise SettingsError(
            f"an encoding ({given.encoding}) is given for {paths[0].name}, whose format has its own; leave it out"
        )
    return [
        FileFormat(**{name: getattr(given, name) if use else None for name, use in zip(takes, uses, strict=True)})
        for uses in zip(*takes.values(), strict=True)
    ]


def _takes_delimiter(path: Path, delimiter: str | None) -> bool:
    name = path.name.lower().removesuffix(".gz")
    return name.endswith(".csv") or (name.endswith(".tsv") and delimiter == "\t")


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


def check_file(path: Path) -> Reader:
    """The reader for a file; refuses what is not there, is no file, or is of no known format."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} does not exist; check the name and the folder") from None
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise unreadable(path, error) from None
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder; name the files in it one by one")
    if not stat.S_ISREG(mode):  # a pipe may wait for ever, and a device may never end
        raise DataError(f"{path} is no regular file but a pipe or a device; save what comes from it as a file first")
    return _name_and_reader(path)[1]


def _name_and_reader(path: Path) -> tuple[str, Reader]:
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    for suffix, reader in READERS.items():
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            if suffix in COLUMNAR and is_compressed(path):
                raise DataError(f"{path} is compressed twice; unpack it, and give the file without .gz")
            return name[: -len(suffix)], reader
    lines = ", ".join(suffix for suffix in READERS if suffix not in COLUMNAR)
    raise DataError(
        f"{path} is not of a known format; give a file whose name ends in {lines}, alone or with .gz, or in "
        f"{', '.join(COLUMNAR)}"
    )


def _json_rows(path: Path, file_format: FileFormat) -> Iterator[Row]:
    for number, line in text_lines(path, file_format):
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
            array = "; an array of objects is read from a file whose name ends in .json" if line.startswith("[") else ""
            raise DataError(
                f"{where(path, number)} is not a JSON object; "
                f'each line must look like {{"text": "...", "label": "..."}}{array}'
            )
        yield Row(number, values, header=number)


def _json_array_rows(path: Path, file_format: FileFormat) -> Iterator[Row]:
    """The objects of one array, wherever its lines end; of a file that begins with an object, those of its lines."""
    start = next((stripped[0] for piece in text_chunks(path, file_format) if (stripped := piece.lstrip())), "")
    if start == "[":
        yield from array_rows(path, text_chunks(path, file_format))
    else:
        yield from _json_rows(path, file_format)


def array_rows(path: Path, pieces: Iterator[str]) -> Iterator[Row]:
    """The objects of an array whose text comes in pieces; little more than one of them is held."""
    text, at, line, before = "", 0, 1, ""  # before: what came last, of [ and { and ,
    while True:
        start = SPACE.match(text, at).end()  # type: ignore[union-attr]
        line, at = line + text.count("\n", at, start), start
        if at == len(text):
            piece = next(pieces, None)
            if piece is None:
                raise DataError(f"{where(path, line)}: the array is not closed; end it with ]")
            text, at = piece, 0
        elif text[at] in FOLLOWS[before] and text[at] != "{":
            before, at = text[at], at + 1
            if before == "]":
                break
        elif text[at] in FOLLOWS[before]:
            values, text, at, end = _object(path, line, text, at, pieces)
            yield Row(line, values, header=line)
            line, at, before = line + text.count("\n", at, end), end, "{"
        else:
            raise DataError(
                f"{where(path, line)}: the array holds something else than JSON objects with commas between them "
                f"({quoted(text[at : at + 20])}); put it right"
            )
    if rest := next(filter(None, (piece.strip() for piece in chain([text[at:]], pieces))), ""):
        raise DataError(f"{where(path, line)}: there is more after the array ({quoted(rest[:20])}); remove it")


def _object(
    path: Path, line: int, text: str, at: int, pieces: Iterator[str]
) -> tuple[dict[str, object], str, int, int]:
    """The object that begins at a place of a text, the text as far as it was read, and where it begins and ends."""
    while True:
        try:
            values, end = DECODER.raw_decode(text, at)
            return values, text, at, end
        except json.JSONDecodeError as error:
            held = len(text) - at
            if held > LONGEST_ROW:
                raise too_long(where(path, line)) from None
            # As much again as there is: so a long object is read a few times and not once a piece.
            more = "".join(_at_least(pieces, held))
            if not more:
                place = where(path, line + text.count("\n", at, error.pos))
                raise DataError(f"{place} is not valid JSON ({error.msg}); put the array right") from None
            text, at = text[at:] + more, 0
        except (ValueError, RecursionError) as error:  # numbers too long and brackets too deep for Python
            raise DataError(f"{where(path, line)} cannot be read as JSON ({error}); put it right") from None


def _at_least(pieces: Iterator[str], size: int) -> Iterator[str]:
    for piece in pieces:
        yield piece
        size -= len(piece)
        if size <= 0:
            return


def _csv_rows(path: Path, file_format: FileFormat) -> Iterator[Row]:
    if csv.field_size_limit() <= LONGEST_ROW:  # the csv module stops at 131,072 characters unless told otherwise
        csv.field_size_limit(LONGEST_ROW + 1)
    start, held = 1, 0  # the line on which this row begins, and how much of it has been read

    def lines() -> Iterator[str]:
        nonlocal held
        for _, line in text_lines(path, file_format):
            held += len(line)
            if held > LONGEST_ROW:
                raise too_long(where(path, start))
            yield line

    def records() -> Iterator[tuple[int, list[str]]]:
        nonlocal start, held
        every, head = lines(), list[str]()
        while not (head and head[-1].strip()) and (line := next(every, None)) is not None:
            head.append(line)
        delimiter = file_format.delimiter or _delimiter(head[-1] if head else "")
        # Strict, since otherwise a quote that is never closed swallows the rest of the file without a word.
        reader = csv.reader(chain(head, every), delimiter=delimiter, strict=True)
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


def _delimiter(header: str) -> str:
    """What stands between the names of a header most often, outside of quotes: a comma, unless another does."""
    bare = QUOTED.sub("", header)
    return max(DELIMITERS, key=bare.count)


def _tsv_rows(path: Path, file_format: FileFormat) -> Iterator[Row]:
    lines = ((number, line.rstrip("\r\n")) for number, line in text_lines(path, file_format))
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


def _columnar_rows(values: Callable[[Path], Iterator[ArrowRow]], path: Path, _: FileFormat) -> Iterator[Row]:
    for number, row in enumerate(values(path), start=1):
        if number == 1 and len(row) > MOST_COLUMNS:
            raise DataError(
                f"{path} has {len(row):,} columns, but at most {MOST_COLUMNS:,} are read; take out those that hold no "
                "text and no label"
            )
        yield Row(number, row, header=1)


READERS: dict[str, Reader] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json-lines": _json_rows,
    ".json": _json_array_rows,
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
