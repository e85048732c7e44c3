"""The figures of the study, made from records alone: each row over its seeds, and rows held against each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from research.common.files import atomic_write, pack_json
from research.common.methods import method_called
from research.common.runs import PARTS
from research.common.statistics import holm, paired_over_seeds
from research.common.store import Store
from research.encoders.measured import Found, RunFigures, found_in, so_far
from research.encoders.rows import ALONE, QUESTIONS, ROWS, Row
from research.encoders.streams import STREAMS
from research.encoders.study import StudyMaterial

ENOUGH = 5  # seeds that a row must have to answer a question
ALL_ORDERS = "all"  # each seed's mean over all orders
MEASURES = ("average", "forgetting", "when_learnt", "without_slots")
DIGITS = 6


def figures_of(material: StudyMaterial, store: Store, enough: int = ENOUGH) -> dict[str, Any]:
    """All that is known of one stream with one encoder. A row of fewer seeds than are enough answers no question."""
    ledger = material.ledger(store)
    known = list(ROWS.values())
    found = {order: found_in(material, ledger, order, known) for order in material.orders}
    # A method that starts afresh is the same in every order: these alone make no order worth showing.
    found = {order: rows for order, rows in found.items() if _has_an_order(rows)}
    names = [name for name in ROWS if any(name in rows for rows in found.values())]
    orders = {
        order: {"domains": list(material.orders[order]), **_compared(rows, names, enough)}
        for order, rows in found.items()
    }
    over = {name: runs for name, runs in _over_orders(found).items() if len(runs) >= enough}
    if len(found) > 1 and _has_an_order(over):
        orders[ALL_ORDERS] = _compared(over, names, enough)
    begun = {order: part for order in material.orders if (part := so_far(material, ledger, order, known))}
    told = {*names, *(name for _, rows in begun.values() for name in rows)}
    return {
        "weights": material.weights,
        "rounded_from": material.rounded_from,
        "sizes": {name: dict(sizes) for name, sizes in material.sizes.items()},
        "model": dict(material.model),
        "training": asdict(material.training),
        "rows": {name: _described(row) for name, row in ROWS.items() if name in told},
        "orders": orders,
        "so_far": {
            order: {"domains": list(material.orders[order][:number]), **_compared(rows, list(rows), enough)}
            for order, (number, rows) in begun.items()
        },
    }


def _has_an_order(rows: Found) -> bool:
    return not all(method_called(ROWS[name].method).reinit for name in rows)


def write_figures(folder: Path, out: Path, enough: int = ENOUGH) -> list[Path]:
    """A file for each stream that has records in the folder, with all encoders that it was tried with."""
    store = Store(folder)
    by_stream: dict[str, dict[str, Any]] = {}
    for material in StudyMaterial.all_in(folder):
        by_stream.setdefault(material.stream, {})[material.encoder] = figures_of(material, store, enough)
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
    rows = [name for name in (every[0] if every else ()) if all(name in one for one in every)]
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


def _compared(found: Found, names: Sequence[str], enough: int = 1) -> dict[str, Any]:
    by_seed = {
        name: {seed: run for seed, run in found[name].items() if seed != ALONE} for name in names if name in found
    }
    by_seed = {name: runs for name, runs in by_seed.items() if runs}
    rows = {name: _row(runs, found[name].get(ALONE)) for name, runs in by_seed.items()}
    chosen = _chosen(rows)
    best = {family: by_seed[name] for family, name in chosen.items()}
    asked = {f"{a} - {b}": _difference(best, a, b) for a, b in QUESTIONS}
    differences = {name: one for name, one in asked.items() if one is not None and one["seeds"] >= enough}
    adjusted = holm({name: one["test"]["average"]["p_t"] for name, one in differences.items()})
    for name, one in differences.items():
        one["test"]["average"]["p_holm"] = _short(adjusted[name])
    return {"rows": rows, "chosen": chosen, "differences": differences}


def _chosen(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """By the name of a row, the row itself or the variant of it that ends best on validation data.

    Only those that have the most seeds are asked: the best of few seeds is often the luckiest.
    """
    families: dict[str, list[str]] = {}
    for name in rows:
        families.setdefault(ROWS[name].variant_of or name, []).append(name)
    return {
        family: max(
            names, key=lambda name: (len(rows[name]["seeds"]), float(rows[name]["validation"]["average"]["mean"]))
        )
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
