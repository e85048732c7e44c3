"""From records to a sheet: rows and columns of mean, spread and every seed's accuracy, the paper's figure and tests."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Any

import numpy as np

from memgrow.experiments.paper.comparing import Answers, add_tests
from memgrow.experiments.paper.protocol import GENRES, Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.run import Record, Run
from memgrow.methods import find_method
from memgrow.metrics import AccuracyMatrix

Columns = Mapping[str, tuple[str, ...]]
"""The genres whose mean a column shows."""

FIVE: Columns = {**{genre: (genre,) for genre in GENRES}, "average": GENRES}
DIGITS = 3  # of a percentage that is kept


def sheet(
    rows: Sequence[Row],
    columns: Columns,
    protocol: Protocol,
    results: Results,
    seeds: int,
    *,
    references: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    later: bool = False,
    part: str = "test",
) -> dict[str, Any]:
    """The figures of rows.

    Each of `references`, by what tests against it are called, names for each column the row that others are tested
    against there; with `later`, only the rows below it are.
    """
    answers = [answers_of(row, protocol, results, seeds, part) for row in rows]
    lines = [
        {
            "name": row.name,
            **({"group": row.group} if row.group else {}),
            **row.about,
            "method": row.method,
            "learns": list(row.learns),
            "cells": {
                name: {**summary(scores_of(given, genres)), **_printed(row, name)} for name, genres in columns.items()
            },
            **measures(row, protocol, results, seeds),
        }
        for row, given in zip(rows, answers, strict=True)
    ]
    for label, reference in references.items():
        add_tests(lines, answers, columns, label, reference, later)
    return {"part": part, "seeds": seeds, "columns": list(columns), "references": list(references), "rows": lines}


def answers_of(row: Row, protocol: Protocol, results: Results, seeds: int, part: str) -> Answers:
    """Those of the last stage, for seeds whose runs have all succeeded."""
    runs = results.get(row.on(protocol), {})
    found = {}
    for seed in range(seeds):
        asked = row.answering(protocol, seed)
        if all(run in runs for run in asked.values()):
            found[seed] = {
                genre: np.asarray(getattr(runs[run][-1], part)[genre], dtype=bool) for genre, run in asked.items()
            }
    return found


def scores_of(answers: Answers, genres: Sequence[str]) -> list[float | None]:
    """By seed, the mean of the genres' accuracies in percent."""
    return [
        100 * fmean(float(by_genre[genre].mean()) for genre in genres) if set(genres) <= set(by_genre) else None
        for by_genre in answers.values()
    ]


def summary(values: Sequence[float | None], digits: int = DIGITS) -> dict[str, Any]:
    """Mean, standard deviation over seeds, and the seeds' own values; None where there is nothing to say."""
    known = [value for value in values if value is not None]
    return {
        "mean": round(fmean(known), digits) if known else None,
        "spread": round(stdev(known), digits) if len(known) > 1 else None,
        "values": [round(value, digits) for value in known],
    }


def measures(row: Row, protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    """What a row cost, what it forgot, and how it did on the validation parts of what it learnt."""
    runs = results.get(row.on(protocol), {})
    asked = [row.answering(protocol, seed) for seed in range(seeds)]
    walks = [_walk(row, given, runs) for given in asked if all(run in runs for run in given.values())]
    of: dict[str, Callable[[Sequence[Record]], float | None]] = {
        "validation": lambda walk: _validation(row, walk),
        "forgetting": lambda walk: _forgetting(row, walk),
        "epochs": lambda walk: float(sum(record.stage.epochs for record in walk)),
        "seconds": lambda walk: sum(record.stage.seconds for record in walk),
    }
    sizes = [walk[-1].stage.parameters for walk in walks]
    taken = {name: summary([measure(walk) for walk in walks]) for name, measure in of.items()}
    return {"parameters": round(fmean(sizes)) if sizes else None, **taken}


def _walk(row: Row, asked: Mapping[str, Run], runs: Mapping[Run, Sequence[Record]]) -> list[Record]:
    """All stages that one seed's row went through."""
    own = [genre for genre in asked if row.method == "in-domain" or genre == next(iter(asked))]
    return [record for genre in own for record in runs[asked[genre]]]


def _validation(row: Row, walk: Sequence[Record]) -> float:
    last = dict.fromkeys(row.learns, walk[-1])
    if row.method == "in-domain":
        last = dict(zip(row.learns, walk, strict=True))
    return 100 * fmean(float(np.mean(record.validation[name])) for name, record in last.items())


def _forgetting(row: Row, walk: Sequence[Record]) -> float | None:
    method = find_method(row.method)
    if method.afresh or len(walk) < 2:
        return None
    matrix = AccuracyMatrix()
    for name, record in zip(row.learns, walk, strict=True):
        matrix = matrix.with_row((name,), {genre: float(np.mean(right)) for genre, right in record.test.items()})
    lost = matrix.forgetting()
    return None if lost is None else 100 * lost


def _printed(row: Row, column: str) -> dict[str, Any]:
    figure, arrow = row.paper.get(column, (None, None))
    return {"paper": figure, "paper_arrow": arrow} if figure is not None else {}
