"""Rows of data read as examples, with the domain and the part that they name.

Every field is checked, and one that cannot be used is refused with its place. The texts of a dialogue are its message
and reply, which are checked alike.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from memgrow.data.columns import OPTIONS, SPLIT, Columns
from memgrow.data.example import Example, half_of_a_character
from memgrow.data.files import domain_and_part, read_rows
from memgrow.data.formats import Row
from memgrow.data.lines import LONGEST_ROW, too_long, where
from memgrow.data.splits import PART_NAMES
from memgrow.data.values import is_missing, kind_of, name_of
from memgrow.errors import DataError, listed

NO_GOLD_LABEL = "-"  # so MultiNLI and SNLI mark the pairs on which their annotators did not agree


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
        self.unread_label: str | None = None  # a column of labels that nobody meant to be passed over
        self._means_replies = columns.reply is not None
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
            if self._labelled and not self._means_replies and self.unread_label is None:
                self.unread_label = columns.unread_label(row.values)
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


Item = TypeVar("Item")


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of at most `size` items, each as soon as it is full."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def _reason_to_leave_out(row: Row, columns: Columns, labelled: bool, skip_empty: bool) -> str | None:
    if labelled and _bare(row, columns.label) == NO_GOLD_LABEL:
        return "without a gold label"
    if skip_empty and "" in (_bare(row, columns.text), _bare(row, columns.pair), _bare(row, columns.reply)):
        return "with an empty message or reply" if columns.reply else "with an empty text"
    return None


def _bare(row: Row, column: str | None) -> str | None:
    """A field without the space around it; one that is missing is empty, and a column that is not asked for None.

    Of what is no string only the kind: an array is not to be compared with anything.
    """
    if column is None:
        return None
    value = row.values.get(column)
    return value.strip() if isinstance(value, str) else "" if is_missing(value) else type(value).__name__


def _record(row: Row, columns: Columns, place: str, labelled: bool) -> Record:
    example = example_of(row, columns, place, labelled)
    return Record(
        example,
        group=_name(row, columns.group, place) if columns.group else example.text,
        by=_name(row, columns.by, place) if columns.by else None,
        part=_part(row, columns.split, place) if columns.split else None,
    )


def example_of(row: Row, columns: Columns, place: str, labelled: bool) -> Example:
    """The example in a row; unless it is `labelled`, its label or reply may be missing, or be of any kind."""
    assert columns.text is not None  # Columns.among has found it
    label = reply = None
    if columns.label and (labelled or _is_usable(name_of(row.values.get(columns.label)))):
        label = _name(row, columns.label, place)
    if columns.reply and (labelled or _is_usable(row.values.get(columns.reply), but="")):
        reply = _text(row, columns.reply, place)
    return Example(
        text=_text(row, columns.text, place),
        pair=_text(row, columns.pair, place) if columns.pair else None,
        label=label,
        where=place,
        reply=reply,
    )


def _is_usable(value: object, but: str = NO_GOLD_LABEL) -> bool:
    """Whether a value is a string that says something, `but` for one that does not."""
    return isinstance(value, str) and value.strip() not in ("", but) and half_of_a_character(value) is None


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
