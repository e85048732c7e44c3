"""Rows, texts of the command line and lines of standard input read as examples.

Every field is checked, and one that cannot be used is refused with its place. The texts of a dialogue are its message
and reply, which are checked alike.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from memgrow.data.columns import BY_NAME, OPTIONS, SPLIT, Columns
from memgrow.data.domain import Example, half_of_a_character
from memgrow.data.files import domain_and_part, read_rows
from memgrow.data.formats import Row
from memgrow.data.lines import LONGEST_ROW, input_lines, too_long, where
from memgrow.data.splits import PART_NAMES
from memgrow.data.values import is_missing, kind_of, name_of
from memgrow.errors import DataError, SettingsError, listed

NO_GOLD_LABEL = "-"  # so MultiNLI and SNLI mark the pairs on which their annotators did not agree
LONGEST_NAMES = 500  # letters of the columns of an object, together, that are remembered


@dataclass(frozen=True, slots=True)
class Record:
    """An example, and the group, the domain and the part that its row names."""

    example: Example
    group: str
    by: str | None = None
    part: str | None = None


class TableReader:
    """Reads a file record by record; rows without a gold label, and on demand with an empty text, are only counted.

    Once a record has been read its columns are known, and after the last one how many rows were left out and why.
    """

    options = OPTIONS  # how a user names a column

    def __init__(self, path: Path, columns: Columns, labelled: bool = True, skip_empty: bool = False) -> None:
        self.path, self.columns, self.left_out = path, columns, dict[str, int]()
        self.renamed: set[str] = set()  # labels that have got another name
        self._labelled, self._skip_empty = labelled, skip_empty

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def domain_and_part(self) -> tuple[str, str | None]:
        """The domain and the part of rows that do not say so themselves."""
        return domain_and_part(self.path)

    def rows(self) -> Iterator[Row]:
        return read_rows(self.path, self.columns.file_format)

    def place(self, line: int) -> str:
        return where(self.path, line)

    def __iter__(self) -> Iterator[Record]:
        found = False
        for row in self.rows():
            place = self.place(row.line)
            if not found and not self.left_out:
                self.columns = self.columns.among(row.values, self.place(row.header), self._labelled, self.options)
            columns = self.columns
            if columns.split is None and SPLIT in row.values:
                raise DataError(
                    f"{place} has a field {SPLIT!r}, but the rows before it have none; give it to all or none"
                )
            row = self._renamed(row) if columns.labels else row
            reason = _reason_to_leave_out(row, columns, self._labelled, self._skip_empty)
            if reason is None:
                found = True
                yield _record(row, columns, place, self._labelled)
            else:
                self.left_out[reason] = self.left_out.get(reason, 0) + 1
        if not found:
            reasons = " or ".join(self.left_out)
            raise DataError(f"every row of {self.path} is {reasons}; give rows that can be used")

    def _renamed(self, row: Row) -> Row:
        """The row with its label by the name that it is to have."""
        label = self.columns.label
        name = None if label is None else name_of(row.values.get(label))
        new = None if name is None else self.columns.label_names.get(name.strip())
        if label is None or name is None or new is None:
            return row
        self.renamed.add(name.strip())
        return replace(row, values={**row.values, label: new})


@dataclass(frozen=True, slots=True)
class Table:
    """The records of one file, the columns they came from, and how many rows were left out for which reason."""

    path: Path
    columns: Columns
    records: tuple[Record, ...]
    left_out: Mapping[str, int]


def read_table(path: Path, columns: Columns, labelled: bool = True, skip_empty: bool = False) -> Table:
    """Read a whole file into memory."""
    reader = TableReader(path, columns, labelled, skip_empty)
    records = tuple(reader)
    return Table(path, reader.columns, records, reader.left_out)


def read_unlabelled(path: str | Path, columns: Columns = BY_NAME) -> list[Example]:
    """One example for each row of a file, for prediction; a label or a reply is read where there is one."""
    return list(iterate_unlabelled(path, columns))


@dataclass(frozen=True, slots=True)
class Asked:
    """An example that is to be answered, all fields of its row, and which of these hold its texts."""

    example: Example
    fields: Mapping[str, object]  # none of a plain text
    text_columns: tuple[str | None, ...] = ()


def iterate_unlabelled(path: str | Path, columns: Columns = BY_NAME) -> Iterator[Example]:
    """The same, each as it is read."""
    return (asked.example for asked in iterate_asked(path, columns))


def iterate_asked(path: str | Path, columns: Columns = BY_NAME) -> Iterator[Asked]:
    """The same with the other fields of the row."""
    path, first = Path(path), True
    columns = replace(columns, by=None, group=None, split=None)
    for row in read_rows(path, columns.file_format):
        if first:
            columns, first = columns.among(row.values, where(path, row.header), labelled=False), False
        example = _example(row, columns, where(path, row.line), labelled=False)
        yield Asked(example, row.values, (columns.text, columns.pair))


def examples_from_words(texts: Sequence[str], task: str | None) -> list[Example]:
    """One example for each text of the command line, or for each two of them for a model of pairs."""
    checked = [filled(text, f"text {number} of the command line") for number, text in enumerate(texts, 1)]
    if task != "pair":
        return [Example(text) for text in checked]
    if len(texts) % 2:
        raise SettingsError(f"this model reads pairs: give two texts for each answer, not {len(texts)} in all")
    return [Example(first, second) for first, second in zip(checked[::2], checked[1::2], strict=True)]


def examples_from_lines(lines: Iterable[bytes], columns: Columns, task: str | None) -> Iterator[Example]:
    """One example for each line: a JSON object, or a plain text; plain texts of a pair have a tab between them."""
    return (asked.example for asked in asked_from_lines(lines, columns, task))


def asked_from_lines(lines: Iterable[bytes], columns: Columns, task: str | None) -> Iterator[Asked]:
    """The same with the other fields of the object."""
    for number, (place, line) in enumerate(input_lines(lines), 1):
        # Passing over an empty line would set the answers off against the lines they belong to.
        if not line.strip():
            raise DataError(f"{place}: the line is empty; remove it, or give it a text")
        yield (
            _from_json(line, number, columns, place)
            if line.startswith("{")
            else Asked(_from_text(line, task, place), {})
        )


def example_from_value(value: str | Mapping[str, object], task: str | None, place: str) -> Example:
    """One example of a plain text (of a pair: with a tab between its two), or of an object with the usual fields."""
    if isinstance(value, str):
        return _from_text(filled(value, place), task, place)
    return _from_fields(value, BY_NAME, place).example


def in_chunks(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    """Lists of at most `size` examples, each as soon as it is full."""
    rest = iter(examples)
    while chunk := list(islice(rest, size)):
        yield chunk


def _from_json(line: str, number: int, columns: Columns, place: str) -> Asked:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: this is not a JSON object ({error}); mend or remove the line") from error
    return _from_fields(values, columns, place, number)


def _from_fields(values: Mapping[str, object], columns: Columns, place: str, number: int = 1) -> Asked:
    names = tuple(values)
    # Finding the columns takes longer than the rest, and those who ask a service have the same ones each time.
    find = _found if sum(map(len, names)) < LONGEST_NAMES else _found.__wrapped__
    try:
        found = find(columns, names)
    except DataError:
        found = columns.among(values, place, labelled=False)  # an error with the place
    example = _example(Row(number, values, number), found, place, labelled=False)
    return Asked(example, values, (found.text, found.pair))


@lru_cache(maxsize=64)
def _found(columns: Columns, names: tuple[str, ...]) -> Columns:
    return replace(columns.among(names, "the object", labelled=False), label=None, reply=None)


def _from_text(line: str, task: str | None, place: str) -> Example:
    if task != "pair":
        return Example(line, where=place)
    first, tab, second = line.partition("\t")
    if not (tab and first.strip() and second.strip()):
        raise DataError(f"{place}: this model reads pairs; put a tab between the two texts of a line")
    return Example(first, second, where=place)


def _reason_to_leave_out(row: Row, columns: Columns, labelled: bool, skip_empty: bool) -> str | None:
    if labelled and _bare(row, columns.label) == NO_GOLD_LABEL:
        return "without a gold label"
    if skip_empty and "" in (_bare(row, columns.text), _bare(row, columns.pair), _bare(row, columns.reply)):
        return "with an empty message or reply" if columns.reply else "with an empty text"
    return None


def _bare(row: Row, column: str | None) -> object:
    """A field without the space around it; one that is missing is empty, and a column that is not asked for None."""
    if column is None:
        return None
    value = row.values.get(column)
    return value.strip() if isinstance(value, str) else "" if is_missing(value) else value


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
            f"{place}: the field {column!r} is {kind_of(value)}, but a text must be a string; put it in quotes"
        )
    if len(value) > LONGEST_ROW:
        raise too_long(place)
    return filled(value, place, column)


def _name(row: Row, column: str, place: str) -> str:
    """A field that names something: a label, a domain, a group or a part."""
    value = _value(row, column, place)
    name = name_of(value)
    if name is None:
        raise DataError(
            f"{place}: the field {column!r} is {kind_of(value)}, but must be a string, a whole number, true or false"
        )
    return filled(name.strip(), place, column)


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
    if value is None or (type(value) is not str and is_missing(value)):
        raise DataError(
            f"{place} has no value for the field {column!r} (its fields are {listed(row.values) or 'none'}); "
            "fill it in or remove the row"
        )
    return value


def filled(value: str, place: str, column: str | None = None) -> str:
    """The value, if there is something in it and it can be written down again."""
    if not value or value.isspace():
        remedy = "fill it in or remove the row" if column else "give it at least one word"
        raise DataError(f"{_what(place, column)} is empty; {remedy}")
    if (half := half_of_a_character(value)) is not None:
        raise DataError(
            f"{_what(place, column)} holds half a character ({half}) that stands for nothing alone; remove it"
        )
    return value


def _what(place: str, column: str | None) -> str:
    return f"{place}: the field {column!r}" if column else place
