"""Texts to be labelled: from the command line, from a file, or from standard input."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from memgrow.data import Columns, Example
from memgrow.errors import DataError, SettingsError

CHUNK = 1024  # lines that are labelled together: a pipe of any length takes little memory


def examples_from_words(texts: Sequence[str], task: str | None) -> list[Example]:
    """Each text by itself, or two and two for a model of pairs."""
    if task != "pair":
        return [Example(text) for text in texts]
    if len(texts) % 2:
        raise SettingsError(f"this model reads pairs: give two texts for each answer, not {len(texts)} in all")
    return [Example(first, second) for first, second in zip(texts[::2], texts[1::2], strict=True)]


def examples_from_lines(lines: Iterable[bytes], columns: Columns, task: str | None) -> Iterator[Example]:
    """A JSON object or a plain text a line; plain texts of a pair have a tab between them."""
    for number, raw in enumerate(lines, 1):
        where = f"standard input, line {number}"
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"{where}: this is not UTF-8 text; convert it first") from error
        if not line.strip():
            raise DataError(f"{where}: the line is empty; remove it, or give it a text")
        yield _from_json(line, columns, where) if line.startswith("{") else _from_text(line, task, where)


def in_chunks(examples: Iterable[Example]) -> Iterator[list[Example]]:
    rest = iter(examples)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _from_json(line: str, columns: Columns, where: str) -> Example:
    try:
        row: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: this is not a JSON object ({error}); mend or remove the line") from error
    found = columns.among(row, where, labelled=False)
    texts = {name: row[name] for name in (found.text, found.pair) if name is not None}
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{where}: {name} must be a text with at least one word, not {text!r}")
    return Example(texts[found.text or ""], texts[found.pair] if found.pair else None, where=where)


def _from_text(line: str, task: str | None, where: str) -> Example:
    if task != "pair":
        return Example(line, where=where)
    first, tab, second = line.partition("\t")
    if not (tab and first.strip() and second.strip()):
        raise DataError(f"{where}: this model reads pairs; put a tab between the two texts of a line")
    return Example(first, second, where=where)
