"""The figures of the study, made from records alone: each row over its seeds, and rows held against each other."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from memgrow.experiments.encoders.rows import ALONE, QUESTIONS, ROWS, Row
from memgrow.experiments.encoders.streams import STREAMS
from memgrow.experiments.encoders.study import Material, materials
from memgrow.experiments.plan import Ledger
from memgrow.experiments.run import Record
from memgrow.experiments.store import Store
from memgrow.methods import find_method
from memgrow.metrics import AccuracyMatrix
from memgrow.metrics.significance import holm, paired_over_seeds
from memgrow.storage import atomic_write, pack_json

SEEDS = range(30)  # those that are looked for
ALL_ORDERS = "all"  # each seed's mean over all orders
PARTS = ("validation", "test")
MEASURES = ("average", "forgetting", "when_learnt", "without_slots")
DIGITS = 6


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
    for (name, _, seed), run in material.runs(rows, [order], [*SEEDS, ALONE]).items():
        records = [ledger.record(stage) for stage in reversed(run.stages())]  # the last first: it is what is missing
        whole = [record for record in reversed(records) if record is not None]
        if len(whole) == len(records):
            found.setdefault(name, {})[seed] = RunFigures.of(ROWS[name], whole)
    return found


def figures_of(material: Material, store: Store) -> dict[str, Any]:
    """All that is known of one stream with one encoder."""
    ledger = material.ledger(store)
    known = [row for row in ROWS.values() if row.is_known()]
    found = {order: found_in(material, ledger, order, known) for order in material.orders}
    # A method that starts afresh is the same in every order: these alone make no order worth showing.
    found = {order: rows for order, rows in found.items() if not all(find_method(ROWS[n].method).afresh for n in rows)}
    names = [name for name in ROWS if any(name in rows for rows in found.values())]
    orders = {
        order: {"domains": list(material.orders[order]), **_compared(rows, names)} for order, rows in found.items()
    }
    if len(found) > 1:
        orders[ALL_ORDERS] = _compared(_over_orders(found), names)
    return {
        "weights": material.weights,
        "rounded_from": material.rounded_from,
        "sizes": {name: dict(sizes) for name, sizes in material.sizes.items()},
        "model": dict(material.model),
        "training": asdict(material.training),
        "rows": {name: _described(ROWS[name]) for name in names},
        "orders": orders,
    }


def write_figures(folder: Path, out: Path) -> list[Path]:
    """A file for each stream that has records in the folder, with all encoders that it was tried with."""
    store = Store(folder)
    by_stream: dict[str, dict[str, Any]] = {}
    for material in materials(folder):
        by_stream.setdefault(material.stream, {})[material.encoder] = figures_of(material, store)
    return [
        atomic_write(out / f"{stream}.json", pack_json({"stream": stream, **_about(stream), "encoders": encoders}))
        for stream, encoders in by_stream.items()
    ]


def _about(stream: str) -> dict[str, str]:
    return {"about": STREAMS[stream].about} if stream in STREAMS else {}


def _described(row: Row) -> dict[str, Any]:
    settings = {"model": dict(row.model), "options": dict(row.options)}
    return {"method": row.method, "about": row.about, "variant_of": row.variant_of, **settings}


def _over_orders(found: Mapping[str, Found]) -> dict[str, dict[int, RunFigures]]:
    """Each seed's mean over the orders, for seeds that have run in all of them."""
    every = list(found.values())
    rows = [name for name in every[0] if all(name in one for one in every)]
    over: dict[str, dict[int, RunFigures]] = {}
    for name in rows:
        for seed in every[0][name]:
            if all(seed in one[name] for one in every):
                over.setdefault(name, {})[seed] = _mean_of([one[name][seed] for one in every])
    return over


def _mean_of(runs: Sequence[RunFigures]) -> RunFigures:
    def mean(value: Callable[[RunFigures], float | None]) -> float | None:
        known = [one for run in runs if (one := value(run)) is not None]
        return fmean(known) if len(known) == len(runs) else None

    scores = {
        part: {what: mean(lambda run, part=part, what=what: run.scores[part][what]) for what in MEASURES}  # type: ignore[misc]
        for part in PARTS
    }
    ends = {name: fmean(run.at_the_end[name] for run in runs) for name in runs[0].at_the_end}
    costs = [fmean(getattr(run, name) for run in runs) for name in ("added", "seconds", "later_seconds")]
    return RunFigures(scores, ends, runs[0].parameters, costs[0], runs[0].trained, *costs[1:])


def _compared(found: Found, names: Sequence[str]) -> dict[str, Any]:
    by_seed = {
        name: {seed: run for seed, run in found[name].items() if seed != ALONE} for name in names if name in found
    }
    by_seed = {name: runs for name, runs in by_seed.items() if runs}
    rows = {name: _row(runs, found[name].get(ALONE)) for name, runs in by_seed.items()}
    chosen = _chosen(rows)
    best = {family: by_seed[name] for family, name in chosen.items()}
    differences = {f"{a} - {b}": one for a, b in QUESTIONS if (one := _difference(best, a, b)) is not None}
    adjusted = holm({name: one["test"]["average"]["p_t"] for name, one in differences.items()})
    for name, one in differences.items():
        one["test"]["average"]["p_holm"] = _short(adjusted[name])
    return {"rows": rows, "chosen": chosen, "differences": differences}


def _chosen(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """By the name of a row, the row itself or the variant of it that ends best on validation data."""
    families: dict[str, list[str]] = {}
    for name in rows:
        families.setdefault(ROWS[name].variant_of or name, []).append(name)
    return {
        family: max(names, key=lambda name: float(rows[name]["validation"]["average"]["mean"]))
        for family, names in families.items()
    }


def _row(runs: Mapping[int, RunFigures], alone: RunFigures | None) -> dict[str, Any]:
    some = list(runs.values())
    return {
        "seeds": list(runs),
        **{
            part: {
                what: _over_seeds(values)
                for what in MEASURES
                if (values := [one for run in some if (one := run.scores[part][what]) is not None])
            }
            for part in PARTS
        },
        "at_the_end": {name: _short(fmean(run.at_the_end[name] for run in some)) for name in some[0].at_the_end},
        "parameters": some[0].parameters,
        "added": _short(some[0].added),
        "trained": some[0].trained,
        "seconds": _over_seeds([run.seconds for run in some]),
        "seconds_alone": alone and round(alone.seconds, 1),
        "later_seconds_alone": alone and round(alone.later_seconds, 1),
    }


def _difference(found: Found, a: str, b: str) -> dict[str, Any] | None:
    """The first row's figures less the second's, over the seeds that both have."""
    seeds = [seed for seed in found.get(a, {}) if seed in found.get(b, {})]
    if not seeds:
        return None
    paired: dict[str, Any] = {"seeds": len(seeds)}
    for part in PARTS:
        paired[part] = {}
        for what in MEASURES[:3]:
            pairs = [(found[a][seed].scores[part][what], found[b][seed].scores[part][what]) for seed in seeds]
            both = [(x, y) for x, y in pairs if x is not None and y is not None]
            if both:
                test = paired_over_seeds([x for x, _ in both], [y for _, y in both])
                paired[part][what] = {name: _short(value) for name, value in test.to_json().items()}
    return paired


def _over_seeds(values: Sequence[float]) -> dict[str, Any]:
    spread = stdev(values) if len(values) > 1 else None
    return {"mean": _short(fmean(values)), "spread": _short(spread), "values": [_short(value) for value in values]}


def _short(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, DIGITS)
