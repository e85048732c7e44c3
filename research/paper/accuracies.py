"""Sheets of accuracies, made from the records of runs: figures of rows, and tests of them against one of the rows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from research.common.matrix import Matrix
from research.common.methods import method_called
from research.common.paper_test import paper_test
from research.common.seeds_and_examples import paired_over_examples
from research.common.significance import holm, paired_over_seeds
from research.paper.protocol import GENRES, PAIR, Protocol
from research.paper.rows import Finished, Printed, Results, Row
from research.paper.sheet import DIGITS, Cell, Line, Sheet, Summary, Test

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
RESAMPLES = 100  # the bootstrap's interval is not shown: the one by Student's t holds with few seeds as well
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
) -> Sheet:
    """The accuracies of rows, tested against the references; with `later`, only of rows below the reference."""
    finished = [row.finished(protocol, results, seeds) for row in rows]
    answers = [{one.seed: _right(one, part) for one in some} for some in finished]
    names = [row.name for row in rows]
    tests = {
        label: _against(names, answers, columns, reference, later=later) for label, reference in references.items()
    }
    lines = [
        Line(
            row.name,
            {
                column: cell(
                    Summary.of(_accuracies(answers[number], domains)),
                    row.paper.get(column),
                    {label: found[number, column] for label, found in tests.items() if (number, column) in found},
                )
                for column, domains in columns.items()
            },
            row.group,
            row.about,
            row.method,
            row.learns,
            parameters=parameters(finished[number]),
            measures={
                "validation": Summary.of(map(_validation, finished[number])),
                "forgetting": Summary.of(map(_forgetting, finished[number])),
                **costs(finished[number]),
            },
        )
        for number, row in enumerate(rows)
    ]
    return Sheet(part, seeds, list(columns), list(references), lines, title)


def cell(summary: Summary, paper: Printed | None, tests: Mapping[str, Test] = MappingProxyType({})) -> Cell:
    figure, arrow = paper or (None, None)
    return Cell(summary, figure, arrow, tests)


def parameters(finished: Sequence[Finished]) -> int | None:
    """At the end, on the mean."""
    sizes = [one.stages[-1].stage["parameters"] for one in finished]
    return round(fmean(sizes)) if sizes else None


def costs(finished: Sequence[Finished]) -> dict[str, Summary]:
    """The epochs and seconds that all stages took."""
    return {
        "epochs": Summary.of(float(sum(record.stage["epochs"] for record in one.stages)) for one in finished),
        "seconds": Summary.of(sum(record.stage["seconds"] for record in one.stages) for one in finished),
    }


def compare(ours: NDArray[np.bool_], other: NDArray[np.bool_]) -> Test:
    """A row against the reference, from (seeds, examples) of each; differences in points."""
    paper = paper_test(ours, other)
    both = paired_over_examples(other, ours, resamples=RESAMPLES)
    seeds = paired_over_seeds(other.mean(axis=1), ours.mean(axis=1))
    return Test(
        arrow=paper.arrow,
        arrows=count_arrows(paper_test(us, them).arrow for us, them in zip(ours, other, strict=True)),
        p_paper=rounded(min(paper.p_worse, paper.p_better)),
        seeds=both.seeds,
        difference=_points(both.difference),
        low=_points(both.low),
        high=_points(both.high),
        p=both.p,
        p_over_seeds=rounded(seeds.p_t),
        p_mcnemar=rounded(both.mcnemar.p),
    )


def count_arrows(arrows: Iterable[str | None]) -> dict[str, int]:
    found = Counter(arrow or "none" for arrow in arrows)
    return {name: found[name] for name in ARROWS if found[name]}


def rounded(p: float | None) -> float | None:
    return None if p is None else round(p, P_DIGITS)


def _against(
    names: Sequence[str], answers: Sequence[Answers], columns: Columns, reference: Mapping[str, str], *, later: bool
) -> dict[At, Test]:
    """A test of every cell that has seeds in common with the reference's of its column.

    Holm's correction counts all rows and single domains together; means over several domains are a family of their own.
    """
    corrected: dict[At, Test] = {}
    for single in (True, False):
        family: dict[At, Test] = {}
        for column in (column for column, domains in columns.items() if (len(domains) == 1) == single):
            if reference.get(column) not in names:
                continue
            at = names.index(reference[column])
            for number in range(at if later else 0, len(answers)):
                if number != at and (test := _test(answers[at], answers[number], columns[column])) is not None:
                    family[number, column] = test
        adjusted = holm({f"{number} {column}": test.p for (number, column), test in family.items()})
        corrected |= {
            (number, column): replace(test, p=rounded(test.p), p_holm=rounded(adjusted[f"{number} {column}"]))
            for (number, column), test in family.items()
        }
    return corrected


def _test(ours: Answers, other: Answers, domains: Sequence[str]) -> Test | None:
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
    """The validation accuracy of the domains learnt."""
    last = finished.last
    return 100 * fmean(float(np.mean(last[domain].validation[domain])) for domain in finished.row.learns)


def _forgetting(finished: Finished) -> float | None:
    row, stages = finished.row, finished.stages
    if method_called(row.method).afresh or len(stages) < 2:
        return None
    matrix = Matrix()
    for name, record in zip(row.learns, stages, strict=True):
        matrix.add((name,), {domain: float(np.mean(right)) for domain, right in record.test.items()})
    lost = matrix.forgetting()
    return None if lost is None else 100 * lost


def _points(share: float | None) -> float | None:
    return None if share is None else round(100 * share, DIGITS)
