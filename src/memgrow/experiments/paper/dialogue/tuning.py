"""How strongly EWC holds on to old weights in dialogue: chosen on validation data, by perplexity."""

from math import exp
from typing import Any

from memgrow.experiments.paper.dialogue.finished import losses, tried, walks
from memgrow.experiments.paper.dialogue.protocol import LETTERS, PAIR
from memgrow.experiments.paper.protocol import Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.sheet import summary

SEEDS = 3  # the first so many of all


def rows(protocol: Protocol) -> list[Row]:
    return [
        Row(f"{strength:g}", "EWC", PAIR, options={"strength": strength}, about={"value": strength})
        for strength in protocol.strengths
    ]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    """Validation perplexities; the average is their geometric mean, and the strength with the lowest is chosen."""
    lines = [_line(row, protocol, results, seeds) for row in rows(protocol)]
    known = {line["value"]: line["cells"]["average"]["mean"] for line in lines}
    known = {value: mean for value, mean in known.items() if mean is not None}
    chosen = min(known, key=lambda value: known[value], default=None)
    return {"sheets": [{"part": "validation", "columns": [*LETTERS, "average"], "rows": lines}], "chosen": chosen}


def _line(row: Row, protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    given = tried(walks(row, protocol, results, seeds), "validation")
    by_letter = {letter: losses(given, domain) for letter, domain in LETTERS.items()}
    seeded = [[value for value in both if value is not None] for both in zip(*by_letter.values(), strict=True)]
    average = [exp(sum(both) / len(both)) for both in seeded if both]
    cells = {letter: summary([None if x is None else exp(x) for x in some]) for letter, some in by_letter.items()}
    return {"name": row.name, **row.about, "cells": {**cells, "average": summary(average)}}
