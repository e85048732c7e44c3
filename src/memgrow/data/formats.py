"""The formats of data files as rows: JSONL, JSON, CSV and TSV, plain or in gzip, and Parquet and Arrow.

Files are read row by row, and every error names the file and the line. `READERS` is the table of formats.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from memgrow.data.arrow_files import ArrowRow, arrow_values, parquet_values
from memgrow.data.lines import LONGEST_ROW, FileFormat, text_chunks, text_lines, too_long, where
from memgrow.errors import DataError, listed, quoted

MOST_COLUMNS = 10_000
DELIMITERS = ",;\t|"  # of CSV files; the first, unless the header has more of another
QUOTED = re.compile(r'"[^"]*"')
SPACE = re.compile(r"\s*")
DECODER = json.JSONDecoder()
FOLLOWS = {"": "[", "[": "{]", "{": ",]", ",": "{"}  # what may come after what, in an array of objects


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of one row by column, the line on which it begins, and the line that names its columns."""

    line: int
    values: Mapping[str, object]
    header: int


Reader = Callable[[Path, FileFormat], Iterator[Row]]


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
