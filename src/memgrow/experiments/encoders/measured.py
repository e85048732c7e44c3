"""The figures of single runs of the study: of those that are whole, and of those that got only part of the way."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from memgrow.experiments.encoders.rows import ALONE, ROWS, Row
from memgrow.experiments.encoders.study import Material
from memgrow.experiments.plan import Ledger
from memgrow.experiments.run import Record
from memgrow.methods import find_method
from memgrow.metrics import AccuracyMatrix

SEEDS = range(30)  # those that are looked for
PARTS = ("validation", "test")
SHARED = 2  # seeds that unfinished runs must have in common


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run: accuracies by part and measure, each where there is one, and what it cost."""

    scores: Mapping[str, Mapping[str, float | None]]
    at_the_end: Mapping[str, float]  # test accuracy by domain
    parameters: int
    added: float  # parameters for each further domain
    trained: int | None  # in the last stage
    seconds: float
    later_seconds: float  # of all domains but the first, which most rows share

    @classmethod
    def of(cls, row: Row, records: Sequence[Record]) -> "RunFigures":
        method, last = find_method(row.method), records[-1]
        matrices = {part: _matrix(records, part) for part in PARTS}
        afresh = method.afresh and not method.together
        further = max(len(records) - 1, 1)
        grown = (last.stage.parameters - records[0].stage.parameters) / further
        ends = _own(matrices["test"]) if afresh else matrices["test"].rows[-1].scores
        return cls(
            {part: _scores(matrices[part], last, part, method.together, afresh) for part in PARTS},
            dict(ends),
            last.stage.parameters,
            last.stage.parameters if afresh else grown,
            last.stage.trained,
            sum(record.stage.seconds for record in records),
            sum(record.stage.seconds for record in records[1:]),
        )


def _matrix(records: Sequence[Record], part: str) -> AccuracyMatrix:
    matrix = AccuracyMatrix()
    for record in records:
        answers = getattr(record, part)
        matrix = matrix.with_row(record.stage.learned, {name: fmean(right) for name, right in answers.items()})
    return matrix


def _own(matrix: AccuracyMatrix) -> dict[str, float]:
    """The accuracy on each domain just after it was learnt."""
    return {name: matrix.rows[stage].scores[name] for name, stage in matrix.learned_at().items()}


def _scores(matrix: AccuracyMatrix, last: Record, part: str, together: bool, afresh: bool) -> dict[str, float | None]:
    """Where each domain has a model of its own, that is the one which answers, and nothing is forgotten."""
    learnt = None if together else fmean(_own(matrix).values())
    silent = last.without_slots.get(part)
    return {
        "average": learnt if afresh else matrix.average(),
        "forgetting": None if together or afresh else matrix.forgetting(),
        "when_learnt": learnt,
        "without_slots": fmean(fmean(right) for right in silent.values()) if silent else None,
    }


Found = Mapping[str, Mapping[int, RunFigures]]
"""By row and seed."""


def found_in(material: Material, ledger: Ledger, order: str, rows: Iterable[Row]) -> dict[str, dict[int, RunFigures]]:
    """The runs in one order of which every stage has a record."""
    found: dict[str, dict[int, RunFigures]] = {}
    for (name, seed), (records, stages) in _records_in(material, ledger, order, rows).items():
        if len(records) == stages:
            found.setdefault(name, {})[seed] = RunFigures.of(ROWS[name], records)
    return found


def so_far(
    material: Material, ledger: Ledger, order: str, rows: Iterable[Row]
) -> tuple[int, dict[str, dict[int, RunFigures]]] | None:
    """Rows that are under way in one order, after as many domains as all of them have learnt with the same seeds.

    Nothing where every row that is under way has a whole run, and nothing of rows that are not past the first domain.
    """
    got: dict[str, dict[int, list[Record]]] = {}
    for (name, seed), (records, _) in _records_in(material, ledger, order, rows).items():
        if seed != ALONE and len(records) > 1 and not find_method(ROWS[name].method).afresh:
            got.setdefault(name, {})[seed] = records
    every = len(material.orders[order])
    if all(any(len(records) == every for records in runs.values()) for runs in got.values()):
        return None
    common = {seed: min(len(runs.get(seed, ())) for runs in got.values()) for seed in SEEDS}
    number = sorted(common.values(), reverse=True)[SHARED - 1]
    if number < SHARED:
        return None
    seeds = [seed for seed, domains in common.items() if domains >= number]
    return number, {
        name: {seed: RunFigures.of(ROWS[name], runs[seed][:number]) for seed in seeds} for name, runs in got.items()
    }


def _records_in(
    material: Material, ledger: Ledger, order: str, rows: Iterable[Row]
) -> dict[tuple[str, int], tuple[list[Record], int]]:
    """By row and seed, the records of all stages up to the first that has none, and how many stages the run has."""
    found: dict[tuple[str, int], tuple[list[Record], int]] = {}
    for (name, _, seed), run in material.runs(rows, [order], [*SEEDS, ALONE]).items():
        stages = run.stages()
        records: list[Record] = []
        for stage in stages:
            if (record := ledger.record(stage)) is None:
                break
            records.append(record)
        found[name, seed] = (records, len(stages))
    return found
