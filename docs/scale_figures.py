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
    """Time a batch, accuracy and sizes after a hundred domains."""
    found, rows = _found("hundred-domains.json"), []
    for kind, name in WORDS.items():
        for reading, one in found[kind].items():
            accuracy = one["accuracy"]
            told = accuracy["at the end, domain told"]
            rows.append(
                [
                    f"{name}, {reading} read",
                    *(f"{ratio:.2f}" for ratio in one["ratio"].values()),
                    *(f"{100 * accuracy[when]:.1f}" for when in ("just learnt", "at the end")),
                    "-" if told is None else f"{100 * told:.1f}",
                ]
            )
    for reading, one in found.get("real", {}).items():
        if isinstance(one, dict):
            name = f"{found['real']['encoder']}, {reading} read"
            rows.append([name, *(f"{ratio:.2f}" for ratio in one["ratio"].values()), "-", "-", "-"])
    header = (
        "model",
        "training step",
        "answers, one domain",
        "answers, mixed",
        "accuracy when learnt, %",
        "at the end, %",
        "domain told, %",
    )
    parts = [Table(None, header, rows).to_markdown(), _in_words(found)]
    return "\n\n".join(parts)


def _in_words(found: Results) -> str:
    sizes = found["transformer"]["nearest"]["bytes"]
    grown = [later - earlier for earlier, later in pairwise(sizes[1:])]
    saving = found["saving"]
    return (
        f"Times are those of a batch after {found['domains']} domains as a multiple of that after one (CPU).\n"
        f"Every domain after the first added {min(grown):,} to {max(grown):,} bytes to the small Transformer.\n"
        f"Texts that read the slots of their own domain: "
        f"{100 * found['transformer']['nearest']['own domain read']:.0f}% (Transformer), "
        f"{100 * found['bilstm']['nearest']['own domain read']:.0f}% (BiLSTM).\n"
        f"A model of {saving['GiB']:.2f} GiB with {found['domains']} large domains more was saved in "
        f"{saving['save, s a GiB']:.1f} s a GiB and loaded in {saving['load, s a GiB']:.1f} (of the CPU: "
        f"{saving['save, s of the CPU a GiB']:.1f} and {saving['load, s of the CPU a GiB']:.1f}).\n"
        f"From `python {found['command']}`."
    )


def _found(name: str) -> Results:
    found: Results = json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))
    return found


SCALE: dict[str, Callable[[Results], str]] = {"scale-costs": costs, "scale-simulated": simulated}
HUNDRED: dict[str, Callable[[Results], str]] = {"hundred-domains": hundred}
