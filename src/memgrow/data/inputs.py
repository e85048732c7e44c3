"""Texts to predict on: rows of a file, arguments of a command, lines of standard input, and JSON values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeVar

from memgrow.data.domain import Example
from memgrow.data.files import decode_lines, parse_json, read_rows, where
from memgrow.data.rows import DEFAULT_COLUMNS, Columns, check_text, example_of
from memgrow.errors import DataError, SettingsError

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Input:
    """An example to predict on, all fields of its row, and which of these hold its texts."""

    example: Example
    fields: Mapping[str, object]  # none of a plain text
    text_columns: tuple[str | None, ...] = ()


def inputs_from_file(path: str | Path, columns: Columns = DEFAULT_COLUMNS) -> Iterator[Input]:
    """One input for each row of a file; a label or a reply is read where there is one."""
    path, found = Path(path), None
    columns = replace(columns, by=None, group=None, split=None)
    for line, values in read_rows(path, columns.file_format):
        found = found or columns.resolve(values, path.name, labelled=False)
        yield Input(example_of(values, found, where(path, line), labelled=False), values, (found.text, found.pair))


def inputs_from_arguments(texts: Sequence[str], task: str | None) -> list[Input]:
    """One input for each text, or for each two of them for a model of pairs."""
    checked = [check_text(text, f"text {number}") for number, text in enumerate(texts, 1)]
    if task != "pair":
        return [Input(Example(text), {}) for text in checked]
    if len(texts) % 2:
        raise SettingsError(f"this model reads pairs: give two texts for each answer, not {len(texts)} in all")
    return [Input(Example(first, second), {}) for first, second in zip(checked[::2], checked[1::2], strict=True)]


def inputs_from_lines(chunks: Iterable[list[bytes]], columns: Columns, task: str | None) -> Iterator[list[Input]]:
    """One input for each line of `line_chunks`: a JSON object, or a plain text (of a pair, two with a tab between)."""
    first = 1
    for lines in chunks:
        inputs = []
        for place, line in decode_lines(lines, columns.file_format, first):
            # Skipping an empty line would misalign the answers.
            check_text(line, place)
            value = parse_json(line, place) if line.startswith("{") else line
            inputs.append(input_of(value, task, place, columns))
        first += len(lines)
        yield inputs


def input_of(
    value: str | Mapping[str, object], task: str | None, place: str, columns: Columns = DEFAULT_COLUMNS
) -> Input:
    """The input in a plain text (of a pair, two with a tab between), or in an object with the usual fields."""
    if not isinstance(value, str):
        try:
            found = _resolve(columns, tuple(value))
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
        return Input(example_of(value, found, place, labelled=False), value, (found.text, found.pair))
    check_text(value, place)
    if task != "pair":
        return Input(Example(value, where=place), {})
    first, _, second = value.partition("\t")
    if not (first.strip() and second.strip()):
        raise DataError(f"{place}: this model reads pairs; put a tab between the two texts")
    return Input(Example(first, second, where=place), {})


@lru_cache(maxsize=64)  # clients of a service send the same columns each time
def _resolve(columns: Columns, names: tuple[str, ...]) -> Columns:
    return replace(columns.resolve(names, "this row", labelled=False), label=None, reply=None)


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of at most `size` items, each as soon as it is full."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
