"""The answers of `memgrow predict` as JSON lines or as CSV, each with the other fields of the row that it answers."""

import csv
import io
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memgrow.cli.output import write_line
from memgrow.errors import DataError, SettingsError, listed
from memgrow.printable import json_text

if TYPE_CHECKING:
    from memgrow.data.inputs import Input

Answer = Mapping[str, Any]
OURS = ("texts", "label", "probability", "probabilities", "reply", "ended")  # names of columns that an answer has


class JsonLines:
    """An object a line: the other fields of the row, the texts, and the answer."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def add(self, asked: "Input", answer: Answer) -> None:
        from memgrow.storage import finite

        others = {name: value for name, value in asked.fields.items() if name not in asked.text_columns}
        names = _kept(others, answer)
        kept = {names[name]: value for name, value in others.items()}
        with _naming_deep_fields(asked):
            self._write(json_text(finite({**kept, "texts": asked.example.texts, **answer})))


class CsvRows:
    """A row below a header: all fields of the row, then the answer, with a column for each label's probability."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._names = write, list[str]()
        self._kept: dict[str, str] = {}  # of the first row: a field is in the same column in all rows

    def add(self, asked: "Input", answer: Answer) -> None:
        texts = dict(zip(("text", "pair"), asked.example.texts, strict=False))
        fields, columns = asked.fields or texts, _flat(answer)
        if not self._names:
            self._kept = _kept(fields, columns)
            self._names = [*self._kept.values(), *columns]
            self._line(self._names)
        if strange := [name for name in fields if name not in self._kept]:
            raise DataError(
                f"{asked.example.where} has the field {listed(strange)}, which the first row does not have, so that "
                "they make no table: write JSON lines (--format jsonl)"
            )
        row = {self._kept[name]: value for name, value in fields.items()} | columns
        with _naming_deep_fields(asked):
            self._line([_cell(row.get(name)) for name in self._names])

    def _line(self, cells: list[str]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(cells)
        # Half a character, which JSON can name, is written out: it has no bytes.
        self._write(line.getvalue().encode(errors="backslashreplace").decode())


FORMATS: dict[str, type[JsonLines] | type[CsvRows]] = {"jsonl": JsonLines, "csv": CsvRows}


def answer_format(asked: str | None, output: Path | None) -> str:
    """The format of answers: what is asked for, or what the name of the file says; else JSON lines."""
    name = asked or (output.suffix.lower().removeprefix(".") if output else "jsonl")
    if name not in FORMATS:
        what = f"--format {asked}" if asked else f"{output} does not say its format, which"
        raise SettingsError(f"{what} must be one of {', '.join(FORMATS)}; give --format")
    return name


@contextmanager
def answers_to(output: Path | None, name: str) -> Iterator[JsonLines | CsvRows]:
    """A writer of answers to standard output, or to a file that is there once all are written."""
    if output is None:
        yield FORMATS[name](write_line)
        return
    from memgrow.storage import open_output

    with open_output(output) as file:

        def write(line: str) -> None:
            file.write(f"{line}\n".encode())

        yield FORMATS[name](write)


def is_watched(output: Path | None) -> bool:
    """Whether somebody at a terminal sees no answers, and so would like to know how far it is."""
    if sys.stderr is None or not sys.stderr.isatty():
        return False
    return output is not None or sys.stdout is None or not sys.stdout.isatty()


def _kept(fields: Collection[str], answer: Collection[str]) -> dict[str, str]:
    """The name of each field of a row in the output: another where the answer has one of that name."""
    kept: dict[str, str] = {}
    for name in fields:
        new = name
        # The row may have a given_label too, as the output of an earlier `predict` does.
        while new in OURS or new in answer or (new != name and new in fields):
            new = f"given_{new}"
        kept[name] = new
    return kept


@contextmanager
def _naming_deep_fields(asked: "Input") -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise DataError(
            f"{asked.example.where} has a field that is nested too deeply to be written beside the answer: leave it out"
        ) from None


def _flat(answer: Answer) -> dict[str, Any]:
    """An answer in columns."""
    if "probabilities" not in answer:
        return dict(answer)
    shares = answer["probabilities"]
    each = {f"probability_{label}": share for label, share in shares.items()}
    return {"label": answer["label"], "probability": shares[answer["label"]], **each}


def _cell(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json_text(value)
