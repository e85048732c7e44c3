"""The figures of docs/encoders.md on few rows, taken from results/; docs/figures.py puts them there."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from result_commands import as_typed

from research.common.statistics import paired_over_seeds
from research.common.tables import Table, percent, signed

ROOT = Path(__file__).resolve().parents[1]
TODAY, THIRD = "today", "third"  # as the benchmark calls them

Results = dict[str, Any]


def choose(_: Results) -> str:
    """Each rule at each size, and what it gains over the one that was."""
    found = _found()
    rows = []
    for size, lines in found["choose"].items():
        tests = [one.get("score against today") for name, one in lines.items() if name != TODAY]
        if all(tests):
            rows.append([size, percent(lines[TODAY]["score"]), *map(_interval, tests)])
    (alike,) = {percent(one["score"]) for one in found["choose"]["1000"].values()}
    seeds = {one["seeds"] for size, lines in found["choose"].items() if size != "1000" for one in lines.values()}
    rounded = ", its weights rounded to float16" if found["rounded from"] else ""
    header = ("rows", "old rule, %", "third", "tenth", "longer", "longer and tenth")
    return (
        f"{Table(None, header, rows).to_markdown()}\n\n"
        "Points gained [95% interval], paired by seed; mean over four domains of sentiment, each learnt by a new\n"
        f"model; {seeds.pop()} seeds; MiniLM{rounded}, method F. At 1,000 rows all train alike ({alike}%).\n"
        f"Over the third alone, longer and tenth gains\n{_over_third(found)}.\n"
        f"From `{as_typed(found)}` ({found['machine']})."
    )


def check(_: Results) -> str:
    """The rule that was chosen, on domains that had no part in the choice."""
    found = _found()
    rows = []
    for size in found["check"]:
        scores = {name: _by_domain(found, int(size), name) for name in (TODAY, found["chosen"])}
        pairs = sorted(set.intersection(*map(set, scores.values())))
        seeds = [seed for seed in sorted({seed for seed, _ in pairs}) if _whole(pairs, seed)]
        before, after = ([one[pair] for pair in pairs if pair[0] in seeds] for one in scores.values())
        test = paired_over_seeds(after, before).to_json()
        rows.append(
            [size, percent(fmean(before)), percent(fmean(after)), _interval(test), str(len(before)), len(seeds)]
        )
    (seeds_of_all,) = {row.pop() for row in rows}
    header = ("rows", "old rule, %", "longer and tenth, %", "gained, points [95% interval]", "domains")
    return (
        f"{Table(None, header, rows).to_markdown()}\n\n"
        f"Test parts of the fourteen reviews; {seeds_of_all} seed alone, so the interval is over the domains,\n"
        "and says nothing of other seeds."
    )


def then(_: Results) -> str:
    """A domain of few rows after one of many."""
    found = _found()
    rows = []
    for size, lines in found["then"].items():
        today, longer = lines[TODAY], lines[found["chosen"]]
        rows.append(
            [
                size,
                *(percent(one["score"]) for one in (today, longer)),
                _interval(longer["score against today"]),
                *(percent(one["first_after"]) for one in (today, longer)),
                _interval(longer["first_after against today"]),
            ]
        )
    before = percent(next(iter(found["then"].values()))[TODAY]["first_before"])
    header = (
        "rows",
        "new domain: old rule, %",
        "longer, %",
        "gained",
        "first domain: old rule, %",
        "longer, %",
        "gained",
    )
    return (
        f"{Table(None, header, rows).to_markdown()}\n\n"
        f"The first domain has up to 1,500 rows and {before}% until then;\n"
        f"four pairs of domains, {today['seeds']} seeds; points [95% interval], paired by seed."
    )


def _found() -> Results:
    found: Results = json.loads((ROOT / "results/few-rows.json").read_text(encoding="utf-8"))
    return found


def _interval(test: Results) -> str:
    return "{} [{}, {}]".format(*(signed(100 * test[name]) for name in ("difference", "low", "high")))


def _over_third(found: Results) -> str:
    """What the chosen rule gains over a shorter warm-up alone, size by size."""
    told = []
    for size in ("50", "100", "300"):
        means = []
        for name in (found["chosen"], THIRD):
            runs = [run for run in _runs(found, "choose", int(size)) if run["candidate"] == name]
            seeds = sorted({run["seed"] for run in runs})
            means.append([fmean(run["score"] for run in runs if run["seed"] == seed) for seed in seeds])
        told.append(f"{_interval(paired_over_seeds(*means).to_json())} points with {size} rows")
    return ",\n".join(told)


def _runs(found: Results, part: str, rows: int) -> list[Results]:
    return [run for run in found["runs"] if (run["part"], run["rows"]) == (part, rows)]


def _by_domain(found: Results, rows: int, candidate: str) -> dict[tuple[int, str], float]:
    runs = (run for run in _runs(found, "check", rows) if run["candidate"] == candidate)
    return {(run["seed"], run["domain"]): run["score"] for run in runs}


def _whole(pairs: list[tuple[int, str]], seed: int) -> bool:
    """Whether a seed has all domains that any seed has."""
    return {name for one, name in pairs if one == seed} == {name for _, name in pairs}


FEW_ROWS: dict[str, Callable[[Results], str]] = {
    "few-rows-choose": choose,
    "few-rows-check": check,
    "few-rows-then": then,
}
