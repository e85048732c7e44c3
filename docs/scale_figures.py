"""The figures of docs/scale.md and docs/many-domains.md, taken from results/; docs/figures.py puts them there."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from result_commands import as_typed

from research.common.tables import Table

ROOT = Path(__file__).resolve().parents[1]
MOST = 1.5  # times the time of one domain
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
    return f"{Table(None, ('what', 'takes'), rows).to_markdown()}\n\n{sentence} From `{as_typed(found)}`."


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
    """Time a batch, saving, and accuracy after many domains."""
    found = _found("hundred-domains.json")
    rows = {f"{name}, {reading} read": one for name, one, reading in _timed(found)}
    times = [[name, *(f"{ratio:.2f}" for ratio in one["ratio"].values())] for name, one in rows.items()]
    known = [
        [f"{name}, {reading} read", domains, *(_percent(accuracy) for accuracy in one.values())]
        for kind, name in WORDS.items()
        for reading, of_all in found[kind].items()
        for domains, one in of_all["accuracy"].items()
    ]
    saving = found["saving"]
    spent = [
        [name, *(f"{saving[clock][name]:.1f}" for clock in ("s a GiB", "s of the CPU a GiB"))]
        for name in saving["s a GiB"]
    ]
    tables = (
        (("model", "training step", "answers, one domain", "answers, all domains mixed"), times),
        (("a model, or as many bytes", "seconds for a GiB", "seconds of the CPU for a GiB"), spent),
        (("model", "domains", "accuracy when learnt, %", "at the end, %", "at the end, domain told, %"), known),
    )
    first, second, third = (Table(None, header, some).to_markdown() for header, some in tables)
    return "\n\n".join([first, _in_words(found, rows), second, _of_saving(saving), third, _how(found)])


def _timed(found: Results) -> Iterator[tuple[str, Results, str]]:
    """What is timed, with its name and the domains that are read."""
    sizes = "{hidden} hidden units and {slots} slots a domain".format(**found["wide"]["sizes"])
    named = [(name, found[kind]) for kind, name in WORDS.items()]
    named += [(f"BiLSTM of {sizes}", found["wide"]["timed"])]
    named += [(found["real"]["encoder"], found["real"]["timed"])] if "real" in found else []
    for name, readings in named:
        for reading, one in readings.items():
            yield name, one, reading


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _in_words(found: Results, rows: Results) -> str:
    sizes = found["transformer"]["nearest"]["bytes"]
    added = sorted({later - earlier for earlier, later in pairwise(sizes[1:])})
    bytes_told = " to ".join(f"{size:,}" for size in added)
    own = [_percent(found[kind]["nearest"]["own domain read"]) for kind in WORDS]
    slow = [
        f"{name}, {action}"
        for name, one in rows.items()
        if name.endswith("nearest read")
        for action, ratio in one["ratio"].items()
        if ratio > MOST
    ]
    bound = f"Where the nearest domain is read, all are at most {MOST}"
    return (
        f"CPU time of a batch of {found['batch']} texts after {found['domains']} domains; after one domain it is 1.\n"
        f"Each domain after the first added {bytes_told} bytes to the small Transformer.\n"
        f"{own[0]}% of its texts read their own domain's slots, and {own[1]}% of the BiLSTM's.\n"
        + "\n- ".join([f"{bound}, but for these:\n", *slow] if slow else [f"{bound}."])
    )


def _of_saving(saving: Results) -> str:
    rounds = saving.get("rounds", 3)
    return (
        f"A model of {saving['GiB']:.2f} GiB, the least of {rounds} rounds. `written` is a plain write and fsync, and\n"
        "`read and hashed` a plain read and SHA-256, of as many bytes in the same folder."
    )


def _how(found: Results) -> str:
    minutes = sum(found["seconds of parts"].values()) / 60
    return f"From `{as_typed(found)}`,\nin one run of {minutes:.0f} minutes."


def processes(_: Results) -> str:
    """One process and two, on a CPU."""
    found = _found("processes.json")
    sizes, alone = found["sizes"], next(iter(found["seconds"].values()))
    faster = found["times as fast"]
    told = [
        f"{number} processes took {seconds:.1f} s and one {alone:.1f} s: {faster[number]:.2f} times as fast"
        for number, seconds in list(found["seconds"].items())[1:]
    ]
    return (
        f"On {found['threads']} cores, for an epoch of {found['texts']} texts on a Transformer of {sizes['width']} "
        f"units and {sizes['layers']} layers,\n{'; '.join(told)}.\n"
        f"From `{as_typed(found)}`, on a machine that may have been busy with other work."
    )


def _found(name: str) -> Results:
    found: Results = json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))
    return found


SCALE: dict[str, Callable[[Results], str]] = {"scale-costs": costs, "scale-simulated": simulated}
PROCESSES: dict[str, Callable[[Results], str]] = {"processes": processes}
HUNDRED: dict[str, Callable[[Results], str]] = {"hundred-domains": hundred}
