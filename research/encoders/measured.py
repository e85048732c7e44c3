"""The figures of single runs of the study: of those that are whole, and of those that got only part of the way."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from research.common.matrix import Matrix
from research.common.methods import method_called
from research.common.runs import PARTS, Record
from research.common.store import Ledger
from research.encoders.rows import ALONE, ROWS, Row
from research.encoders.study import StudyMaterial

SEEDS = range(30)  # those that are looked for
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
        method, last = method_called(row.method), records[-1]
        matrices = {part: _matrix(records, part) for part in PARTS}
        afresh = method.reinit and not method.joint
        size, seconds = last.stage["parameters"], [record.stage["seconds"] for record in records]
        grown = (size - records[0].stage["parameters"]) / max(len(records) - 1, 1)
        ends = matrices["test"].when_learned() if afresh else matrices["test"].last
        return cls(
            {part: _scores(matrices[part], last, part, method.joint, afresh) for part in PARTS},
            dict(ends),
            size,
            size if afresh else grown,
            last.stage.get("trained"),
            sum(seconds),
            sum(seconds[1:]),
        )


def _matrix(records: Sequence[Record], part: str) -> Matrix:
    matrix = Matrix()
    for record in records:
        answers = getattr(record, part)
        matrix.add(record.stage["learned"], {name: fmean(right) for name, right in answers.items()})
    return matrix


def _scores(matrix: Matrix, last: Record, part: str, together: bool, afresh: bool) -> dict[str, float | None]:
    """Where each domain has its own model, that one answers, and nothing is forgotten."""
    learned = None if together else fmean(matrix.when_learned().values())
    silent = last.without_slots.get(part)
    return {
        "average": learned if afresh else matrix.average(),
        "forgetting": None if together or afresh else matrix.forgetting(),
        "when_learnt": learned,
        "without_slots": fmean(fmean(right) for right in silent.values()) if silent else None,
    }


Found = Mapping[str, Mapping[int, RunFigures]]
"""By row and seed."""


def found_in(
    material: StudyMaterial, ledger: Ledger, order: str, rows: Iterable[Row]
) -> dict[str, dict[int, RunFigures]]:
    """The runs in one order of which every stage has a record."""
    found: dict[str, dict[int, RunFigures]] = {}
    for (name, seed), (records, stages) in _records_in(material, ledger, order, rows).items():
        if len(records) == stages:
            found.setdefault(name, {})[seed] = RunFigures.of(ROWS[name], records)
    return found


def so_far(
    material: StudyMaterial, ledger: Ledger, order: str, rows: Iterable[Row]
) -> tuple[int, dict[str, dict[int, RunFigures]]] | None:
    """Rows that are under way in one order, after as many domains as all of them have learned with the same seeds.

    Nothing where every row that is under way has a whole run, and nothing of rows that are not past the first domain.
    """
    got: dict[str, dict[int, list[Record]]] = {}
    for (name, seed), (records, _) in _records_in(material, ledger, order, rows).items():
        if seed != ALONE and len(records) > 1 and not method_called(ROWS[name].method).reinit:
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
    material: StudyMaterial, ledger: Ledger, order: str, rows: Iterable[Row]
) -> dict[tuple[str, int], tuple[list[Record], int]]:
    """By row and seed, the records of all stages up to the first that has none, and how many stages the run has."""
    runs = material.runs(rows, [order], [*SEEDS, ALONE])
    return {(name, seed): (ledger.records(run), len(run.stages())) for (name, _, seed), run in runs.items()}
