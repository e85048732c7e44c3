"""A search over values of one setting, on the validation parts of two domains."""

from collections.abc import Mapping, Sequence
from typing import Any

from memgrow.experiments.paper.protocol import PAIR, Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.sheet import Columns, sheet
from memgrow.experiments.paper.table2 import S_AND_T

COLUMNS: Columns = {**S_AND_T, "average": PAIR}


def search(
    rows: Sequence[Row],
    protocol: Protocol,
    results: Results,
    seeds: int,
    reference: str | None = None,
    at_least: int | None = None,
) -> dict[str, Any]:
    """A sheet of validation accuracy, and the `value` of the row that did best; rows may be tested against one.

    No value is called best until all have all their runs; with `at_least`, until so many have any run.
    """
    references = {reference: dict.fromkeys(S_AND_T, reference)} if reference else {}
    made = sheet(rows, COLUMNS, protocol, results, seeds, references=references, part="validation")
    return {"sheets": [made], "chosen": best(made, at_least)}


def best(made: Mapping[str, Any], at_least: int | None = None) -> float | None:
    """The value whose mean over S and T is highest; the first of equals."""
    cells = {line["value"]: line["cells"]["average"] for line in made["rows"]}
    runs = made["seeds"] if at_least is None else 1
    known = {value: cell["mean"] for value, cell in cells.items() if len(cell["values"]) >= runs}
    enough = len(known) >= (len(cells) if at_least is None else at_least)
    return max(known, key=lambda value: known[value], default=None) if enough else None
