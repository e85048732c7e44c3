"""Data files: what a name says of domain, part and format; reading rows of JSONL, CSV, TSV and Parquet."""

import csv
import gzip
import io
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any, cast

from memgrow.data.disk import Unpacked, atomic_write, check_unpacked, lone_surrogate
from memgrow.data.domain import PARTS, Example, Stream
from memgrow.errors import DataError, SettingsError, brief, listed

MAX_ROW = 1 << 24  # characters
BLOCK = 1 << 16  # bytes of standard input that are read at once

PART_NAMES = {"train": "train", "test": "test", **dict.fromkeys(("validation", "valid", "val", "dev"), "validation")}
SEPARATORS = "_-."  # between the name of a domain and that of a part
UTF8 = "utf-8"
DELIMITERS = ",;\t|"  # of CSV files; a comma, unless the header has more of another

PARQUET_BATCH = 256  # rows
Row = tuple[int, Mapping[str, object]]  # line (of Parquet: row), and fields by column
Reader = Callable[[Path, str], Iterator[Row]]  # a path and its encoding


def check_encoding(encoding: str) -> None:
    """Refuse the name of an encoding that there is not."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise SettingsError(f"there is no encoding {encoding!r}; try utf-8, latin-1 or cp1252") from None


def read_rows(path: Path, encoding: str = UTF8) -> Iterator[Row]:
    """The rows of a file, read as its suffix says; a file without rows is an error."""
    empty = True
    with _reading(path):
        for row in check_file(path)(path, encoding):
            empty = False
            yield row
    if empty:
        raise DataError(f"{path} is empty: it has no rows; give a file with at least one")


def check_file(path: Path) -> Reader:
    """The reader for a file; refuses what is missing, not a regular file, or of an unknown format."""
    with _reading(path):
        if path.is_dir():
            raise DataError(f"{path} is a folder; name the files in it")
        if not path.is_file():  # a pipe may wait for ever, a device may never end
            raise DataError(f"{path} does not exist, or is a pipe or a device; check the name")
    if (reader := _name_and_reader(path)[1]) is None:
        raise DataError(
            f"{path} is not of a known format; its name must end in {', '.join(READERS)} (text also in .gz)"
        )
    return reader


def is_data_file(path: Path) -> bool:
    """Whether a name ends as those of data files do."""
    return _name_and_reader(path)[1] is not None


def domain_and_part(path: Path) -> tuple[str, str | None]:
    """books_train.csv is the train part of books, books.csv is all of books, books/test.csv the test part of books."""
    name = _name_and_reader(path)[0]
    for called, part in PART_NAMES.items():
        if name.lower() == called:
            return Path(os.path.realpath(path)).parent.name or name, part
        if len(name) > len(called) + 1 and name.lower().endswith(tuple(joint + called for joint in SEPARATORS)):
            return name[: -len(called) - 1], part
    return name, None


def where(path: Path, line: int) -> str:
    """The place of a row, for error messages."""
    return f"{path.name}, {'row' if path.name.lower().endswith('.parquet') else 'line'} {line}"


def _name_and_reader(path: Path) -> tuple[str, Reader | None]:
    """A file's name without the ending of its format, and what reads that."""
    name = path.name[:-3] if _is_compressed(path) else path.name
    for suffix, reader in READERS.items():
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)], reader
    return name, None


def _is_compressed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} cannot be decompressed ({error}); fetch it again, or check its suffix") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}); check its permissions") from None


def _text_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """The lines of a plain or compressed text file with their numbers and ends."""
    with io.BufferedReader(Unpacked(path)) if _is_compressed(path) else path.open("rb") as raw:
        # Undecodable bytes become lone surrogates, so that the error can name their line.
        text = io.TextIOWrapper(raw, encoding, errors="surrogateescape", newline="\n")
        number = 0
        try:
            for number, line in enumerate(iter(partial(text.readline, MAX_ROW + 1), ""), 1):
                if len(line) > MAX_ROW:
                    raise _too_long(where(path, number))
                if not line.isascii() and lone_surrogate(line):
                    raise UnicodeError
                yield number, line.removeprefix("\ufeff") if number == 1 else line
        except UnicodeError:
            place = where(path, number)
            raise DataError(f"{place} is not valid {encoding}; give --encoding (Excel writes cp1252)") from None


def _too_long(place: str) -> DataError:
    return DataError(f"{place} has more than {MAX_ROW >> 20} MB; close every quote, end every line, or cut the text")


def parse_json(line: str, place: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not valid JSON ({error}); correct it") from None


def _jsonl_rows(path: Path, encoding: str) -> Iterator[Row]:
    for number, line in _text_lines(path, encoding):
        if line.strip():
            place = where(path, number)
            values = parse_json(line.rstrip(), place)
            if not isinstance(values, dict):
                raise DataError(f'{place} is not a JSON object, such as {{"text": "...", "label": "..."}}')
            yield number, values


def _csv_rows(path: Path, encoding: str) -> Iterator[Row]:
    csv.field_size_limit(MAX_ROW)
    lines = (line for _, line in _text_lines(path, encoding))
    header = next(lines, "")
    # Strict: otherwise a quote that is never closed takes the rest of the file.
    reader = csv.reader(chain([header], lines), delimiter=max(DELIMITERS, key=header.count), strict=True)

    def records() -> Iterator[tuple[int, list[str]]]:
        start = 1
        try:
            for fields in reader:
                yield start, fields
                start = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{where(path, start)} is not valid CSV ({error}); check its quotes") from None

    return _table(path, records())


def _tsv_rows(path: Path, encoding: str) -> Iterator[Row]:
    lines = ((number, line.rstrip("\r\n")) for number, line in _text_lines(path, encoding))
    return _table(path, ((number, line.split("\t") if line else []) for number, line in lines))


def _table(path: Path, records: Iterator[tuple[int, list[str]]]) -> Iterator[Row]:
    """The rows below a header; empty lines are skipped."""
    filled = ((line, fields) for line, fields in records if fields)
    header, names = next(filled, (1, []))
    names = [name.strip() for name in names]
    _check_unique(where(path, header), names)
    for line, fields in filled:
        if len(fields) != len(names):
            place = where(path, line)
            raise DataError(f"{place} has {len(fields)} fields, the header {len(names)} ({listed(names)}); correct it")
        yield line, dict(zip(names, fields, strict=True))


def _check_unique(place: str, names: Iterable[str]) -> None:
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError(f"{place} names the column {listed(twice)} more than once; rename one of them")


def _parquet_rows(path: Path, _: str) -> Iterator[Row]:
    """Rows without their nested and binary columns, of which memgrow reads none."""
    try:
        import pyarrow
        from pyarrow import types
        from pyarrow.parquet import ParquetFile, read_schema
    except ImportError:
        raise SettingsError(f"reading {path} needs pyarrow: pip install 'memgrow[arrow]', or save it as CSV") from None

    def is_text(kind: Any) -> bool:
        return bool(types.is_string(kind) or types.is_large_string(kind))

    try:
        schema = read_schema(path)
        _check_unique(str(path), schema.names)
        # A repeated text takes no room before `_bytes_of` has counted it.
        texts = [one.name for one in schema if is_text(getattr(one.type, "value_type", one.type))]
        simple = [one.name for one in schema if types.is_primitive(one.type) or types.is_null(one.type)]
        with ParquetFile(path, read_dictionary=texts) as file:
            unpacked, first, read = 0, 1, {*texts, *simple}
            groups = map(file.metadata.row_group, range(file.num_row_groups))
            columns = (group.column(number) for group in groups for number in range(group.num_columns))
            # Before pyarrow unpacks the first page: it may hold gigabytes, whatever the footer says.
            with path.open("rb") as content, mmap(content.fileno(), 0, access=ACCESS_READ) as raw:
                check_unpacked(path, sum(_unpacked(raw, one) for one in columns if one.path_in_schema in read))
            for batch in file.iter_batches(PARQUET_BATCH, columns=[name for name in schema.names if name in read]):
                unpacked += sum(map(_bytes_of, batch.columns))
                check_unpacked(path, unpacked)
                yield from enumerate(batch.to_pylist(), first)
                first += len(batch)
    except DataError:
        raise
    except (pyarrow.ArrowException, ValueError, OverflowError, IndexError) as error:
        raise DataError(f"{path} cannot be read by pyarrow ({brief(error)}); it is damaged: save it again") from None


def _unpacked(raw: mmap, column: Any) -> int:
    """What the pages of a column unpack to by their headers, for which pyarrow makes room."""
    starts = (column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
    at, total = min(starts), 0
    end = at + column.total_compressed_size
    while 0 <= at < end:
        header, at = _page_header(raw, at)
        if min(header[2], header[3]) < 0:
            raise ValueError("a page has no size")
        total, at = total + header[2], at + header[3]
    return total


def _page_header(raw: mmap, at: int) -> tuple[dict[int, int], int]:
    """The whole numbers of a page's header by field (2: size, 3: size when packed), and where the header ends."""
    found, fields = dict.fromkeys((2, 3), -1), [0]  # fields of nested structs; Thrift's compact protocol
    while fields:
        first, at = raw[at], at + 1
        kind = first & 15
        if not first:
            fields.pop()
            continue
        if first >> 4:
            fields[-1] += first >> 4
        else:
            fields[-1], at = _varint(raw, at)
        if kind in (4, 5, 6):
            value, at = _varint(raw, at)
            if len(fields) == 1:
                found[fields[0]] = value >> 1 ^ -(value & 1)
        elif kind == 8:  # bytes, after their count
            value, at = _varint(raw, at)
            at += value
        elif kind == 12:
            fields.append(0)
        elif kind in (3, 7):
            at += 1 if kind == 3 else 8
        elif kind not in (1, 2):
            raise ValueError("a page header is damaged")
    return found, at


def _varint(raw: mmap, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        value |= (raw[at + shift // 7] & 127) << shift
        if raw[at + shift // 7] < 128:
            return value, at + shift // 7 + 1
    raise ValueError("a page header is damaged")


def _bytes_of(column: Any) -> int:
    """How large a column of a batch is, with each text as often as it occurs."""
    import pyarrow.compute

    if not hasattr(column, "dictionary"):
        return 8 * len(column)
    lengths = pyarrow.compute.binary_length(column.dictionary)
    return 8 * len(column) + (pyarrow.compute.sum(lengths.take(column.indices)).as_py() or 0)


READERS: dict[str, Reader] = {
    ".jsonl": _jsonl_rows,
    ".ndjson": _jsonl_rows,
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".parquet": _parquet_rows,
}


def line_chunks(file: IO[bytes], size: int = 1024) -> Iterator[list[bytes]]:
    """Lists of at most `size` lines as they arrive: a reader of a pipe need not wait for its end."""
    rest = b""
    while block := cast(Any, file).read1(BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > MAX_ROW:
            raise _too_long("a line of standard input")
        yield from (lines[start : start + size] for start in range(0, len(lines), size))
    if rest:
        yield [rest]


def decode_lines(lines: Iterable[bytes], encoding: str = UTF8, first: int = 1) -> Iterator[tuple[str, str]]:
    """Lines of standard input as (place, text without its end); `first` is the number of the first."""
    for number, raw in enumerate(lines, first):
        place = f"standard input, line {number}"
        try:
            line = raw.decode(encoding)
        except UnicodeError as error:
            raise DataError(f"{place} is not {encoding} text; convert it first") from error
        yield place, (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")


def write_jsonl(stream: Stream, folder: str | Path) -> list[Path]:
    """Write each domain to DOMAIN.jsonl in the folder, with a split column; load_stream reads them back."""
    paths = {Path(folder, f"{domain.name}.jsonl"): domain for domain in stream}
    for path, domain in paths.items():
        if path.name != f"{domain.name}.jsonl" or domain_and_part(path)[0] != domain.name:
            raise DataError(f"the domain {domain.name!r} cannot name a file: rename it, without / and _train, _test")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, domain in paths.items():
        rows = (_fields(example) | {"split": part} for part in PARTS for example in getattr(domain, part))
        atomic_write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return list(paths)


def _fields(example: Example) -> dict[str, str]:
    if example.reply is not None:
        return {"message": example.text, "response": example.reply}
    texts = {"text": example.text} if example.pair is None else {"premise": example.text, "hypothesis": example.pair}
    return texts if example.label is None else texts | {"label": example.label}
