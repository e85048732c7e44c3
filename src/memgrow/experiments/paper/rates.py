"""The paper's search for a learning rate."""

from typing import Any

from memgrow.experiments.paper.printed import printed
from memgrow.experiments.paper.protocol import PAIR, PROPOSED, Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.search import search

NOTES = (
    "Validation accuracy of F+M+V. The rate is Adam's, and the same for both domains. The paper names the rates that "
    "it tried and the one that it chose, but no figures. Tests are against that one.",
)


def rows(protocol: Protocol) -> list[Row]:
    return [Row(f"{rate:g}", PROPOSED, PAIR, training={"rate": rate}, about={"value": rate}) for rate in protocol.rates]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    chosen = printed()["rates"]["chosen"]
    found = search(rows(protocol), protocol, results, seeds, f"{chosen:g}")
    return {**found, "paper_chose": chosen, "notes": list(NOTES)}
