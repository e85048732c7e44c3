"""Table 4: five domains, at the end, by several methods; and a second block with methods beyond the paper."""

from typing import Any

from memgrow.experiments.paper import beyond
from memgrow.experiments.paper.printed import printed
from memgrow.experiments.paper.protocol import PROPOSED, Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.sheet import FIVE, sheet

METHODS = ("in-domain", "multi-task", "F+V", "F+M+V", "EWC", "Progressive")
REFERENCE = {PROPOSED: dict.fromkeys(FIVE, PROPOSED)}
NOTES = (
    "The average is the mean of the five genres, tested on their test parts together. The paper does not print it: the "
    "one beside ours is the mean of its figures.",
    "In-domain has five models and multi-task sees all data at once: neither is incremental. The others learn the "
    "genres in the order of the columns. Progressive answers with its newest head.",
)


def rows(protocol: Protocol) -> list[Row]:
    return [*map(_row, METHODS), *beyond.finalists()]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    made = sheet(rows(protocol), FIVE, protocol, results, seeds, references=REFERENCE)
    return {"sheets": [made], "notes": list(NOTES)}


def _row(method: str) -> Row:
    figures = {genre: tuple(figure) for genre, figure in printed()["table4"][method].items()}
    mean = sum(value for value, _ in figures.values()) / len(figures)
    return Row(method, method, paper={**figures, "average": (round(mean, 2), None)})
