"""How strongly EWC holds on to old weights: chosen on validation data, over a stated range."""

from typing import Any

from memgrow.experiments.paper.protocol import PAIR, Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.search import search

SEEDS = 3  # the first so many of all
AT_LEAST = 2  # strengths with runs: tables go on where others have failed, but one by itself is no choice
NOTES = (
    "Validation accuracy of EWC. The strength with the best mean of S and T is used in all tables, those of five "
    "domains too.",
)


def rows(protocol: Protocol) -> list[Row]:
    return [
        Row(f"{strength:g}", "EWC", PAIR, options={"strength": strength}, about={"value": strength})
        for strength in protocol.strengths
    ]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    return {**search(rows(protocol), protocol, results, seeds, at_least=AT_LEAST), "notes": list(NOTES)}
