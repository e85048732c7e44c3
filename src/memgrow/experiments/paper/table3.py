"""Table 3: five domains in turn, every domain tested after each."""

from typing import Any

from memgrow.experiments.paper.printed import printed
from memgrow.experiments.paper.protocol import GENRES, PROPOSED, Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.sheet import FIVE, sheet

METHODS = (PROPOSED, "F+V")  # the paper has the first alone; the second is the same without slots
WHEN_LEARNT = {"when it was learnt": {genre: genre for genre in GENRES}}
NOTES = (
    "Each row is the model after one more genre. A genre's accuracy is tested against what it was when the genre had "
    "just been learnt: a difference below zero is forgetting.",
    "The paper prints 58.87 for government after fiction here, and 60.87 in line 3 of its Table 2, for the same model.",
)


def rows(protocol: Protocol) -> list[Row]:
    return [row for method in METHODS for row in rows_of(method)]


def rows_of(method: str) -> list[Row]:
    """One row for each stage; named for the genre that it has learnt last."""
    figures = printed()["table3"] if method == PROPOSED else [()] * len(GENRES)
    return [
        Row(
            genre,
            method,
            GENRES[: number + 1],
            paper={tested: (value, None) for tested, value in zip(GENRES, figures[number], strict=False)},
        )
        for number, genre in enumerate(GENRES)
    ]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    sheets = [
        {
            "title": method,
            **sheet(rows_of(method), FIVE, protocol, results, seeds, references=WHEN_LEARNT, later=True),
        }
        for method in METHODS
    ]
    return {"sheets": sheets, "notes": list(NOTES)}
