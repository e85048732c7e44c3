"""Texts to be labelled: from the command line, from a file, or from standard input."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from memgrow.data import Columns, Example
from memgrow.errors import DataError, SettingsError
from memgrow.text import tokenise


def examples_from_words(texts: Sequence[str], task: str | None) -> list[Example]:
    """Each text by itself, or two and two for a model of pairs."""
    checked = [_filled(text, f"text {number} of the command line") for number, text in enumerate(texts, 1)]
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
        None if name is None else _filled(row[name], f"{where}: the field {name!r}")
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


def _filled(value: object, what: str) -> str:
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
