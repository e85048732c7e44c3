"""`python -m torture`: all parts, or those that are named, within so many minutes; exit code 1 if a promise broke."""

import argparse
import importlib
import os
import platform
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

# Before torch is imported: the models are tiny, and what is forked must not look for threads. Nor does a fork know that
# it has no terminal.
os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", TERM="dumb")

import torch
from rich.console import Console

from memgrow.evaluation.tables import Column, Table
from torture.budget import Budget, Outcome, Report, merge

# Those that this process may use, where the system tells.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Part:
    """A module of this package with `run(budget, report)`, and its share of the time."""

    about: str
    share: float  # minutes of fifteen
    module: str = ""


PARTS = {
    "kills": Part("`memgrow adapt` killed at random moments and fail points, then resumed", 5.0),
    "saves": Part("a save killed before each of its file operations", 0.5),
    "disks": Part("full disks, read-only folders, no permission", 1.5),
    "crowd": Part("ten writers and ten readers; two commands that adapt one model", 2.5),
    "damage": Part("model folders damaged in thousands of ways", 4.0),
    "fuzz": Part("nonsense for every reader of texts and files", 3.0),
    "growth": Part("reading takes a time that grows with the length and no faster", 1.0),
}


def run(name: str, minutes: float, seed: int) -> Outcome:
    """Run one part; an exception is a failure like any other."""
    share = PARTS[name].share / sum(part.share for part in PARTS.values())
    budget, report = Budget(60 * minutes * share, seed, CORES), Report(name, seed)
    counts = {}
    try:
        counts = importlib.import_module(f"torture.{PARTS[name].module or name}").run(budget, report)
    except Exception:
        report.fail(traceback.format_exc())
    if report.failures:
        sys.stderr.write(f"{name}: {len(report.failures)} failed; to repeat it: {report.repeat}\n")
    return Outcome(counts, time.monotonic() - budget.began, seed, tuple(report.failures))


def counted(outcomes: dict[str, Outcome]) -> Table:
    """What each part has done, a line for each count."""
    rows = []
    for name, one in outcomes.items():
        counts = {**one.counts, "seconds": round(one.seconds), "failures": len(one.failures)}
        for number, (what, count) in enumerate(counts.items()):
            rows.append([name if number == 0 else "", what, count if isinstance(count, str) else f"{count:,}"])
    return Table("Torture", ("part", "what", Column("count", right=True)), rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0, help="of all parts together; each has its share")
    parser.add_argument("--seed", type=int, default=None, help="of all chance; another each time, unless it is given")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, help="a JSON file for the counts, beside those of other parts")
    asked = parser.parse_args()
    names = asked.parts.split(",")
    if strange := [name for name in names if name not in PARTS]:
        parser.error(f"there is no part {', '.join(strange)}; there are {', '.join(PARTS)}")
    seed = int.from_bytes(os.urandom(3)) if asked.seed is None else asked.seed
    torch.set_num_threads(1)
    machine: dict[str, str | int] = {
        "cores": CORES,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
    }
    outcomes: dict[str, Outcome] = {}
    for name in names:
        sys.stderr.write(f"{name}: {PARTS[name].about} (seed {seed})\n")
        outcomes[name] = run(name, asked.minutes, seed)
        if asked.out is not None:
            merge(asked.out, machine, {name: outcomes[name]})
    Console().print(counted(outcomes))
    for name, one in outcomes.items():
        for failure in one.failures:
            print(f"{name} failed: {failure}\n  to repeat it: {Report(name, one.seed).repeat}")
    return int(any(one.failures for one in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
