"""Table 2: from one domain to another, twelve ways."""

from typing import Any

from memgrow.experiments.paper.printed import printed
from memgrow.experiments.paper.protocol import PAIR, PROPOSED, SOURCE, TARGET, Protocol
from memgrow.experiments.paper.rows import Printed, Results, Row
from memgrow.experiments.paper.sheet import Columns, sheet
from memgrow.experiments.paper.table1 import NO_MEMORY

S_AND_T: Columns = {"S": (SOURCE,), "T": (TARGET,)}
REFERENCE = {PROPOSED: dict.fromkeys(S_AND_T, PROPOSED)}
LINES: tuple[tuple[int | None, str, str, tuple[str, ...], bool], ...] = (
    # line, name, method, domains, memory
    (1, "RNN: S", "F", (SOURCE,), False),
    (2, "RNN: T", "F", (TARGET,), False),
    (3, "S", "F", (SOURCE,), True),
    (4, "T", "F", (TARGET,), True),
    (5, "S+T", "multi-task", PAIR, True),
    (6, "F", "F", PAIR, True),
    (7, "F+M", "F+M", PAIR, True),
    (8, "F+M+V", "F+M+V", PAIR, True),
    (9, "F+H", "F+H", PAIR, True),
    (10, "F+H+V", "F+H+V", PAIR, True),
    (11, "EWC", "EWC", PAIR, True),
    (12, "Progressive", "Progressive", PAIR, True),
    (None, "F+V", "F+V", PAIR, True),
)
NOTES = (
    f"S is {SOURCE}, T is {TARGET}. Lines 1 and 2 have no memory, the others 500 slots a domain. "
    "F+V is not in the paper's table: it tells apart what slots and what words add.",
    "Hidden growth (lines 9 and 10) adds as many hidden units as come nearest to the parameters that slots add.",
    "Progressive answers with its newest head for both domains, as in the paper.",
)


def rows(protocol: Protocol) -> list[Row]:
    return [
        Row(
            name,
            method,
            learns,
            model={} if memory else NO_MEMORY,
            paper=_printed(line),
            about={"line": line, "model": "rnn+mem" if memory else "rnn"},
        )
        for line, name, method, learns, memory in LINES
    ]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    made = sheet(rows(protocol), S_AND_T, protocol, results, seeds, references=REFERENCE)
    return {"sheets": [made], "notes": list(NOTES)}


def _printed(line: int | None) -> dict[str, Printed]:
    figures = printed()["table2"].get(str(line), {})
    return {column: tuple(figures[genre]) for column, (genre,) in S_AND_T.items() if figures}
