"""The theorem's tables as Markdown: the same that the terminal shows."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from memgrow.report.theorem import theorem_tables


def theorem_markdown(figures: Mapping[str, Any]) -> str:
    return "\n".join(_lines(figures)).rstrip("\n")


def _lines(figures: Mapping[str, Any]) -> Iterator[str]:
    for shown in theorem_tables(figures):
        if isinstance(shown, Table):
            yield from _table(shown)
        else:
            yield f"{shown}\n"
    yield f"From `{figures['command']}`.\n"


def _table(table: Table) -> Iterator[str]:
    if table.title is not None:
        yield f"{_cell(table.title)}:\n"
    yield f"| {' | '.join(_cell(column.header) for column in table.columns)} |"
    yield f"|{'---|' * len(table.columns)}"
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        yield f"| {' | '.join(map(_cell, cells))} |"
    yield ""


def _cell(value: object) -> str:
    """Bars would end a cell."""
    return str(value).replace("|", "\\|")
