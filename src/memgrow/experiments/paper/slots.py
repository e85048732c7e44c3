"""The paper's figure on the number of slots: validation accuracy on both domains of a pair."""

from typing import Any

from memgrow.experiments.paper.printed import printed
from memgrow.experiments.paper.protocol import PAIR, PROPOSED, Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.search import search
from memgrow.experiments.paper.table2 import S_AND_T

NOTES = (
    "Validation accuracy of F+M+V. The first domain's bank and the one that the second domain adds have that number of "
    "slots each. Tests are against the most slots.",
)


def rows(protocol: Protocol) -> list[Row]:
    return [
        Row(
            str(protocol.scaled(slots)),
            PROPOSED,
            PAIR,
            model={"slots": slots},
            paper={
                column: (value, None)
                for column, value in zip(S_AND_T, printed()["slots"].get(str(slots), ()), strict=False)
            },
            about={"value": protocol.scaled(slots)},
        )
        for slots in protocol.slots
    ]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    most = str(protocol.scaled(protocol.slots[-1]))
    return {**search(rows(protocol), protocol, results, seeds, most), "notes": list(NOTES)}
