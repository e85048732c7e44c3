"""Texts that are to be answered: rows of a file, texts of the command line, lines of standard input, and values."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from memgrow.data.columns import BY_NAME, Columns
from memgrow.data.example import Example
from memgrow.data.files import read_rows
from memgrow.data.formats import Row
from memgrow.data.lines import input_lines, where
from memgrow.data.records import example_of, filled
from memgrow.errors import DataError, SettingsError

LONGEST_NAMES = 500  # letters of the columns of an object, together, that are remembered


@dataclass(frozen=True, slots=True)
class Asked:
    """An example that is to be answered, all fields of its row, and which of these hold its texts."""

    example: Example
    fields: Mapping[str, object]  # none of a plain text
    text_columns: tuple[str | None, ...] = ()


def read_unlabelled(path: str | Path, columns: Columns = BY_NAME) -> list[Example]:
    """One example for each row of a file, for prediction; a label or a reply is read where there is one."""
    return list(iterate_unlabelled(path, columns))


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
        example = example_of(row, columns, where(path, row.line), labelled=False)
        yield Asked(example, row.values, (columns.text, columns.pair))


def examples_from_words(texts: Sequence[str], task: str | None) -> list[Example]:
    """One example for each text of the command line, or for each two of them for a model of pairs."""
    checked = [filled(text, f"text {number} of the command line") for number, text in enumerate(texts, 1)]
    if task != "pair":
        return [Example(text) for text in checked]
    if len(texts) % 2:
        raise SettingsError(f"this model reads pairs: give two texts for each answer, not {len(texts)} in all")
    return [Example(first, second) for first, second in zip(checked[::2], checked[1::2], strict=True)]


def asked_from_lines(chunks: Iterable[list[bytes]], columns: Columns, task: str | None) -> Iterator[list[Asked]]:
    """One example for each line: a JSON object, or a plain text; plain texts of a pair have a tab between them."""
    number = 0
    for lines in chunks:
        asked = []
        for place, line in input_lines(lines, columns.file_format, number + 1):
            number += 1
            # Passing over an empty line would set the answers off against the lines they belong to.
            if not line.strip():
                raise DataError(f"{place}: the line is empty; remove it, or give it a text")
            values = _from_json(line, number, columns, place) if line.startswith("{") else None
            asked.append(values or Asked(_from_text(line, task, place), {}))
        yield asked


def example_from_value(value: str | Mapping[str, object], task: str | None, place: str) -> Example:
    """One example of a plain text (of a pair: with a tab between its two), or of an object with the usual fields."""
    if isinstance(value, str):
        return _from_text(filled(value, place), task, place)
    return _from_fields(value, BY_NAME, place).example


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
    example = example_of(Row(number, values, number), found, place, labelled=False)
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
