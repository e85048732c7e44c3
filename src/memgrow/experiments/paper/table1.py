"""Table 1: how many pairs each genre has, and a BiLSTM without a memory trained on it alone."""

from typing import Any

from memgrow.experiments.paper.printed import printed
from memgrow.experiments.paper.protocol import GENRES, Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.sheet import FIVE, sheet

NO_MEMORY = {"slots": 0}
NOTES = (
    "The official test set has no public labels: where the paper has its accuracy there (68.37; 67.51 in the paper "
    "that introduced the corpus), ours is the mean over the five genres' test parts, which is another set.",
)


def rows(protocol: Protocol) -> list[Row]:
    figures = printed()["table1"]
    alone = {genre: (value, None) for genre, value in figures["bilstm"].items()}
    official = {"average": (figures["official_test"]["paper"], None)}
    return [
        Row("BiLSTM, each genre alone", "in-domain", model=NO_MEMORY, paper=alone),
        Row("BiLSTM, all genres at once", "multi-task", model=NO_MEMORY, paper=official),
    ]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    figures, lines = printed()["table1"], rows(protocol)
    pairs = {
        genre: {"ours": _trained_on(lines[0], genre, protocol, results), "paper": figures["training_pairs"][genre]}
        for genre in GENRES
    }
    return {
        "training_pairs": pairs,
        "yu2018": figures["yu2018"],
        "official_test": figures["official_test"],
        "sheets": [sheet(lines, FIVE, protocol, results, seeds)],
        "notes": list(NOTES),
    }


def _trained_on(row: Row, genre: str, protocol: Protocol, results: Results) -> int | None:
    """Training examples of a genre, as the first seed's record has them."""
    run = row.answering(protocol, 0)[genre]
    records = results.get(row.on(protocol), {}).get(run)
    return records[-1].stage.examples if records else None
