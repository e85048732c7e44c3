"""Texts to be labelled: from the command line, from a file, or from standard input."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from memgrow.data.columns import BY_NAME, OPTIONS, SPLIT, Columns
from memgrow.data.domain import Example
from memgrow.data.files import Row, read_rows, where
from memgrow.data.splits import PART_NAMES
from memgrow.errors import DataError, SettingsError
from memgrow.text import tokenise

NO_GOLD_LABEL = "-"  # so MultiNLI and SNLI mark the pairs on which their annotators did not agree
KINDS: dict[type, str] = {int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}


@dataclass(frozen=True, slots=True)
class Record:
    """An example and where its row says that it belongs: its group, its domain, its part."""

    example: Example
    group: str
    by: str | None = None
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The records of one file, the columns they came from, and how many rows were left out for which reason."""

    path: Path
    columns: Columns
    records: tuple[Record, ...]
    left_out: Mapping[str, int]


def read_table(path: Path, columns: Columns, labelled: bool = True, skip_empty: bool = False) -> Table:
    """A whole file; rows without a gold label (and rows with an empty text, if wished) are left out and counted."""
    records: list[Record] = []
    left_out: dict[str, int] = {}
    for row in read_rows(path):
        place = where(path, row.line)
        if not records and not left_out:
            columns = columns.among(row.values, where(path, row.header), labelled)
        if columns.split is None and SPLIT in row.values:
            raise DataError(f"{place} has a field {SPLIT!r}, but the rows before it have none; give it to all or none")
        reason = _reason_to_leave_out(row, columns, labelled, skip_empty)
        if reason is None:
            records.append(_record(row, columns, place, labelled))
        else:
            left_out[reason] = left_out.get(reason, 0) + 1
    if not records:
        raise DataError(f"every row of {path} is {' or '.join(left_out)}; give a file with rows that can be used")
    return Table(path, columns, tuple(records), left_out)


def read_unlabelled(path: str | Path, columns: Columns = BY_NAME) -> list[Example]:
    """One example for each row of a file, for prediction; a label or a reply is read where there is one."""
    path = Path(path)
    columns = Columns(columns.text, columns.pair, columns.label, reply=columns.reply)
    examples: list[Example] = []
    for row in read_rows(path):
        place = where(path, row.line)
        if not examples:
            columns = columns.among(row.values, where(path, row.header), labelled=False)
        examples.append(_example(row, columns, place, labelled=False))
    return examples


def _reason_to_leave_out(row: Row, columns: Columns, labelled: bool, skip_empty: bool) -> str | None:
    if labelled and _bare(row, columns.label) == NO_GOLD_LABEL:
        return "without a gold label"
    if skip_empty and "" in (_bare(row, columns.text), _bare(row, columns.pair), _bare(row, columns.reply)):
        return "with an empty message or reply" if columns.reply else "with an empty text"
    return None


def _bare(row: Row, column: str | None) -> object:
    value = row.values.get(column) if column is not None else None
    return value.strip() if isinstance(value, str) else value


def _record(row: Row, columns: Columns, place: str, labelled: bool) -> Record:
    example = _example(row, columns, place, labelled)
    return Record(
        example,
        group=_name(row, columns.group, place) if columns.group else example.text,
        by=_name(row, columns.by, place) if columns.by else None,
        part=_part(row, columns.split, place) if columns.split else None,
    )


def _example(row: Row, columns: Columns, place: str, labelled: bool) -> Example:
    assert columns.text is not None  # Columns.among has found it
    label = None
    if columns.label and (labelled or _bare(row, columns.label) not in (None, "", NO_GOLD_LABEL)):
        label = _name(row, columns.label, place)
    reply = None
    if columns.reply and (labelled or _bare(row, columns.reply) not in (None, "")):
        reply = _text(row, columns.reply, place)
    return Example(
        text=_text(row, columns.text, place),
        pair=_text(row, columns.pair, place) if columns.pair else None,
        label=label,
        where=place,
        reply=reply,
    )


def _text(row: Row, column: str, place: str) -> str:
    value = _value(row, column, place)
    if not isinstance(value, str):
        raise DataError(
            f"{place}: the field {column!r} is {_kind(value)}, but a text must be a string; put it in quotes"
        )
    return _filled(value, column, place)


def _name(row: Row, column: str, place: str) -> str:
    """A field that names something: a label, a domain, a group or a part."""
    value = _value(row, column, place)
    if not isinstance(value, str | int):  # true and false are whole numbers to Python
        raise DataError(
            f"{place}: the field {column!r} is {_kind(value)}, but must be a string, a whole number, true or false"
        )
    return _filled(str(value).strip(), column, place)


def _part(row: Row, column: str, place: str) -> str:
    value = _name(row, column, place)
    part = PART_NAMES.get(value.lower())
    if part is None:
        raise DataError(
            f"{place}: the field {column!r} is {value!r}, which is no part of a domain; write one of "
            f"{', '.join(PART_NAMES)}, or name another column with {OPTIONS['split']}"
        )
    return part


def _value(row: Row, column: str, place: str) -> object:
    value = row.values.get(column)
    if value is None:
        raise DataError(
            f"{place} has no value for the field {column!r} (its fields are {', '.join(row.values) or 'none'}); "
            "fill it in or remove the row"
        )
    return value


def _filled(value: str, column: str, place: str) -> str:
    if not value or value.isspace():
        raise DataError(f"{place}: the field {column!r} is empty; fill it in or remove the row")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{place}: the field {column!r} holds half a character (\\u{ord(value[error.start]):04x}) "
            "that stands for nothing alone; remove it"
        ) from None
    return value


def _kind(value: object) -> str:
    return KINDS.get(type(value), "of another kind")


def examples_from_words(texts: Sequence[str], task: str | None) -> list[Example]:
    """Each text by itself, or two and two for a model of pairs."""
    checked = [_nonempty(text, f"text {number} of the command line") for number, text in enumerate(texts, 1)]
    if task != "pair":
        return [Example(text) for text in checked]
    if len(texts) % 2:
        raise SettingsError(f"this model reads pairs: give two texts for each answer, not {len(texts)} in all")
    return [Example(first, second) for first, second in zip(checked[::2], checked[1::2], strict=True)]


def examples_from_lines(lines: Iterable[bytes], columns: Columns, task: str | None) -> Iterator[Example]:
    """A JSON object or a plain text a line; plain texts of a pair have a tab between them."""
    for number, raw in enumerate(lines, 1):
        where = f"standard input, line {number}"
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"{where}: this is not UTF-8 text; convert it first") from error
        # Passing over an empty line would set the answers off against the lines they belong to.
        if not line.strip():
            raise DataError(f"{where}: the line is empty; remove it, or give it a text")
        yield _from_json(line, columns, where) if line.startswith("{") else _from_text(line, task, where)


def in_chunks(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    rest = iter(examples)
    while chunk := list(islice(rest, size)):
        yield chunk


def count_cut(examples: Iterable[Example], max_words: int) -> int:
    """How many texts a model reads the beginning of only. A word has a letter at least: most need no splitting."""
    texts = (text for example in examples for text in example.texts if len(text) > max_words)
    return sum(len(tokenise(text)) > max_words for text in texts)


def _from_json(line: str, columns: Columns, where: str) -> Example:
    try:
        row: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: this is not a JSON object ({error}); mend or remove the line") from error
    found = columns.among(row, where, labelled=False)
    text, pair = (
        None if name is None else _nonempty(row[name], f"{where}: the field {name!r}")
        for name in (found.text, found.pair)
    )
    return Example(text or "", pair, where=where)


def _from_text(line: str, task: str | None, where: str) -> Example:
    if task != "pair":
        return Example(line, where=where)
    first, tab, second = line.partition("\t")
    if not (tab and first.strip() and second.strip()):
        raise DataError(f"{where}: this model reads pairs; put a tab between the two texts of a line")
    return Example(first, second, where=where)


def _nonempty(value: object, what: str) -> str:
    """A text with something in it that can be written down again."""
    if not isinstance(value, str):
        raise DataError(f"{what} must be a text in quotes, not {value!r}")
    if not value.strip():
        raise DataError(f"{what} is empty; give it at least one word")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{what} holds half a character (at place {error.start + 1}); remove it") from None
    return value
