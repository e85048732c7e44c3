"""The figures of docs/scale.md and docs/many-domains.md, taken from results/; docs/figures.py puts them there."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from memgrow.report.table import Table

ROOT = Path(__file__).resolve().parents[1]
WORDS = {"transformer": "small Transformer, frozen+M", "bilstm": "BiLSTM, F+M+V"}

Results = dict[str, Any]


def costs(_: Results) -> str:
    """What a domain costs, in bytes and in seconds."""
    found = _found("scale.json")
    sizes, spent = found["bytes of a domain"], found["seconds"]
    rows = [[f"bytes: {name}", f"{size:,}"] for name, size in sizes.items()]
    rows += [["bytes: all", f"{sum(sizes.values()):,}"]]
    rows += [[f"ms: {name}", f"{1000 * one:,.2f}"] for name, one in spent.items()]
    sentence = f"Of one core; a batch has {found['batch']['texts']} texts of {found['batch']['pieces']} pieces."
    return f"{Table(None, ('what', 'takes'), rows).to_markdown()}\n\n{sentence} From `python {found['command']}`."


def simulated(_: Results) -> str:
    """Requests to many domains, simulated."""
    rows = [
        [
            f"{run['domains']:,}",
            "all alike" if not run["exponent"] else "few often",
            f"{run['cache']:,}" if run["cache"] else "all",
            f"{run['domains a batch']:.1f}",
            f"{run['files read a batch']:.1f}",
            f"{run['texts a second']:.0f}",
            f"{run['GiB of domains in memory']:.2f}",
        ]
        for run in _found("scale.json")["simulated"]
        if run["domains"] in (1, 100, 10_000)
    ]
    header = ("domains", "asked for", "held", "domains a batch", "files read a batch", "texts a second", "GiB held")
    return Table(None, header, rows).to_markdown()


def hundred(_: Results) -> str:
    """Time a batch and accuracy after many domains."""
    found = _found("hundred-domains.json")
    named = [(name, found[kind]) for kind, name in WORDS.items()]
    named += [(found["real"]["encoder"], found["real"]["timed"])] if "real" in found else []
    times = [
        [f"{name}, {reading} read", *(f"{ratio:.2f}" for ratio in one["ratio"].values())]
        for name, readings in named
        for reading, one in readings.items()
    ]
    known = [
        [f"{name}, {reading} read", domains, *(_percent(accuracy) for accuracy in one.values())]
        for name, readings in named[: len(WORDS)]
        for reading, of_all in readings.items()
        for domains, one in of_all["accuracy"].items()
    ]
    first = ("model", "training step", "answers, one domain", "answers, all domains mixed")
    second = ("model", "domains", "accuracy when learnt, %", "at the end, %", "at the end, domain told, %")
    tables = [Table(None, first, times).to_markdown(), Table(None, second, known).to_markdown()]
    return "\n\n".join([tables[0], _in_words(found), tables[1]])


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _in_words(found: Results) -> str:
    sizes, saving = found["transformer"]["nearest"]["bytes"], found["saving"]
    grown = [later - earlier for earlier, later in pairwise(sizes[1:])]
    own = [_percent(found[kind]["nearest"]["own domain read"]) for kind in WORDS]
    return (
        f"CPU time of a batch of {found['batch']} texts after {found['domains']} domains; after one domain it is 1.\n"
        f"Each domain after the first added {min(grown):,} to {max(grown):,} bytes to the small Transformer.\n"
        f"{own[0]}% of its texts read their own domain's slots, and {own[1]}% of the BiLSTM's.\n"
        f"A model of {saving['GiB']:.2f} GiB was saved in {saving['save, s a GiB']:.1f} s a GiB and loaded in "
        f"{saving['load, s a GiB']:.1f}\n(of the CPU: {saving['save, s of the CPU a GiB']:.1f} and "
        f"{saving['load, s of the CPU a GiB']:.1f}).\n"
        f"From `python {found['command']}`."
    )


def _found(name: str) -> Results:
    found: Results = json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))
    return found


SCALE: dict[str, Callable[[Results], str]] = {"scale-costs": costs, "scale-simulated": simulated}
HUNDRED: dict[str, Callable[[Results], str]] = {"hundred-domains": hundred}
