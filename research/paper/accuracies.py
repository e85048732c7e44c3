"""Sheets of accuracies, made from the records of runs: figures of rows, and tests of them against one of the rows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from research.common.matrix import Matrix
from research.common.methods import method_called
from research.common.statistics import holm, paired_over_examples, paired_over_seeds, paper_test
from research.paper import figures
from research.paper.figures import DIGITS, Json, cell, summary
from research.paper.protocol import GENRES, PAIR, Protocol
from research.paper.rows import Finished, Results, Row

Columns = Mapping[str, tuple[str, ...]]
"""The domains whose mean a column shows."""

Answers = Mapping[int, Mapping[str, NDArray[np.bool_]]]
"""By seed and domain, which examples were answered right."""

References = Mapping[str, Mapping[str, str]]
"""By what tests are called: for each column, the row that others are tested against."""

At = tuple[int, str]
"""A row's number, and a column."""

FIVE: Columns = {**{genre: (genre,) for genre in GENRES}, "average": GENRES}
S_AND_T: Columns = {"S": PAIR[:1], "T": PAIR[1:]}
P_DIGITS = 6  # of a p-value that are kept
ARROWS = ("DOWN", "down", "none", "up", "UP")


def sheet(
    rows: Sequence[Row],
    columns: Columns,
    protocol: Protocol,
    results: Results,
    seeds: int,
    *,
    references: References = MappingProxyType({}),
    later: bool = False,
    part: str = "test",
    title: str | None = None,
) -> Json:
    """The accuracies of rows, tested against the references; with `later`, only of rows below the reference."""
    finished = [row.finished(protocol, results, seeds) for row in rows]
    answers = [{one.seed: _right(one, part) for one in some} for some in finished]
    names = [row.name for row in rows]
    tests = {
        label: _against(names, answers, columns, reference, later=later) for label, reference in references.items()
    }
    lines = []
    for number, row in enumerate(rows):
        cells = {
            column: cell(
                summary(_accuracies(answers[number], domains)),
                row.paper.get(column),
                {label: found[number, column] for label, found in tests.items() if (number, column) in found},
            )
            for column, domains in columns.items()
        }
        measures = {
            "validation": summary(map(_validation, finished[number])),
            "forgetting": summary(map(_forgetting, finished[number])),
        }
        lines.append(line(row, cells, finished[number], measures))
    return figures.sheet(part, seeds, list(columns), list(references), lines, title)


def line(row: Row, cells: Json, finished: Sequence[Finished], measures: Json, **more: Json) -> Json:
    """A row with its figures and what it cost: the parameters at the end, epochs and seconds of all stages."""
    sizes = [one.stages[-1].stage["parameters"] for one in finished]
    costs = {
        name: summary(float(sum(record.stage[name] for record in one.stages)) for one in finished)
        for name in ("epochs", "seconds")
    }
    group = {"group": row.group} if row.group else {}
    about = {"name": row.name, **group, **row.about, "method": row.method, "learns": list(row.learns)}
    return {
        **about,
        "cells": cells,
        **more,
        "parameters": round(fmean(sizes)) if sizes else None,
        **measures,
        **costs,
    }


def compare(ours: NDArray[np.bool_], other: NDArray[np.bool_]) -> Json:
    """A row against the reference, from (seeds, examples) of each; differences in points, below 0 the row is worse."""
    paper = paper_test(ours, other)
    both = paired_over_examples(other, ours)
    seeds = paired_over_seeds(other.mean(axis=1), ours.mean(axis=1))
    return {
        "arrow": paper.arrow,  # of the first seed: the paper had one model for each method
        "arrows": count_arrows(paper_test(us, them).arrow for us, them in zip(ours, other, strict=True)),
        "p_paper": rounded(min(paper.p_worse, paper.p_better)),
        "seeds": len(ours),
        "difference": _points(both.difference),
        "low": _points(both.low),
        "high": _points(both.high),
        "p": both.p,
        "p_over_seeds": rounded(seeds.p_t),
        "p_mcnemar": rounded(both.p_mcnemar),
    }


def count_arrows(arrows: Iterable[str | None]) -> dict[str, int]:
    found = Counter(arrow or "none" for arrow in arrows)
    return {name: found[name] for name in ARROWS if found[name]}


def rounded(p: float | None) -> float | None:
    return None if p is None else round(p, P_DIGITS)


def corrected(family: Mapping[At, Json]) -> dict[At, Json]:
    """The tests with Holm's correction over all of them."""
    adjusted = holm({f"{number} {column}": test["p"] for (number, column), test in family.items()})
    return {
        (number, column): {**test, "p_holm": rounded(adjusted[f"{number} {column}"])}
        for (number, column), test in family.items()
    }


def _against(
    names: Sequence[str], answers: Sequence[Answers], columns: Columns, reference: Mapping[str, str], *, later: bool
) -> dict[At, Json]:
    """A test of every cell that has seeds in common with the reference's of its column.

    Holm's correction counts all rows and single domains together; means over several domains are their own family.
    """
    tests: dict[At, Json] = {}
    for single in (True, False):
        family: dict[At, Json] = {}
        for column in (column for column, domains in columns.items() if (len(domains) == 1) == single):
            if reference.get(column) not in names:
                continue
            at = names.index(reference[column])
            for number in range(at if later else 0, len(answers)):
                if number != at and (test := _test(answers[at], answers[number], columns[column])) is not None:
                    family[number, column] = test
        tests |= {at: {**test, "p": rounded(test["p"])} for at, test in corrected(family).items()}
    return tests


def _test(ours: Answers, other: Answers, domains: Sequence[str]) -> Json | None:
    """None where the two have no seed in common, or one of them no answers for a domain."""
    common = sorted(set(ours) & set(other))
    if not common or not all(set(domains) <= set(row[seed]) for row in (ours, other) for seed in common):
        return None
    us, them = (
        np.stack([np.concatenate([row[seed][domain] for domain in domains]) for seed in common])
        for row in (ours, other)
    )  # (seeds, examples)
    return compare(us, them)


def _right(finished: Finished, part: str) -> dict[str, NDArray[np.bool_]]:
    return {domain: np.asarray(getattr(record, part)[domain], dtype=bool) for domain, record in finished.last.items()}


def _accuracies(answers: Answers, domains: Sequence[str]) -> list[float | None]:
    """For each seed the mean of the domains' accuracies in percent."""
    return [
        100 * fmean(float(right[domain].mean()) for domain in domains) if set(domains) <= set(right) else None
        for right in answers.values()
    ]


def _validation(finished: Finished) -> float:
    """The validation accuracy of the domains learned."""
    last = finished.last
    return 100 * fmean(float(np.mean(last[domain].validation[domain])) for domain in finished.row.learns)


def _forgetting(finished: Finished) -> float | None:
    row, stages = finished.row, finished.stages
    if method_called(row.method).reinit or len(stages) < 2:
        return None
    matrix = Matrix()
    for name, record in zip(row.learns, stages, strict=True):
        matrix.add((name,), {domain: float(np.mean(right)) for domain, right in record.test.items()})
    lost = matrix.forgetting()
    return None if lost is None else 100 * lost


def _points(share: float | None) -> float | None:
    return None if share is None else round(100 * share, DIGITS)
