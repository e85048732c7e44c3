"""Peak memory and time against the size of a file: adapting to it, predicting it, and reading it beside others.

    python benchmarks/big_files.py --whole --peers VENV/bin/python --out results/big-files.json
    python benchmarks/big_files.py --sizes 10 100 --out results/big-files.json
    python benchmarks/big_files.py --merge part.json other.json --out results/big-files.json

Files are made up: JSON lines of two labels, a thousand letters each in the mean, with some 30,000 different words.
Sizes are in MB (10^6 bytes). Each command is the one that users run, in a process of its own, and its peak memory is
what the system says of that process when it has ended (`ru_maxrss`); seconds are those of the CPU, so that it matters
little what else the machine does. The model is tiny and learns for one epoch, so that what is measured is the data; the
model that predicts has learnt the smallest file. `--whole` measures all that docs/large-files.md shows, which takes an
hour and ten gigabytes of disk. What `--out` knows of other sizes stays, and is written after each size, so that a run
may be made in parts; `--merge` takes the parts of runs that wrote elsewhere, later ones over earlier. `--peers` is a
Python that has pandas and datasets.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MEMGROW = [sys.executable, "-c", "from memgrow.cli import main; main()"]
SETTINGS: dict[str, Any] = {
    "cell": "rnn",
    "bidirectional": "false",
    "hidden": 8,
    "embedding": 8,
    "model.slots": 8,
    "perceptron": 8,
    "epochs": 1,
    "batch": 4096,
    "max_words": 20,
}
MEAN_LETTERS, FRAGMENT, FRAGMENTS = 1000, 18, 8192  # letters of a text; words of a fragment; fragments to draw from
COMMANDS = ("adapt", "predict")
BASE = 1  # MB: what the command takes for such a file is put down to Python, torch and the model

# How others read the same file. Each prints nothing; time and memory are taken from outside.
READERS = {
    "memgrow, reads and checks": (
        "import sys; from pathlib import Path; from memgrow.data.columns import BY_NAME; "
        "from memgrow.data.records import TableReader; print(sum(1 for _ in TableReader(Path(sys.argv[1]), BY_NAME)))"
    ),
    "memgrow, and draws parts": (
        "import sys; from memgrow.data import load_stream; "
        "print([len(domain.train) for domain in load_stream(sys.argv[1]).stream])"
    ),
    "pandas, in chunks": (
        "import sys, pandas; "
        "print(sum(len(some) for some in pandas.read_json(sys.argv[1], lines=True, chunksize=10_000)))"
    ),
    "pandas, whole": "import sys, pandas; print(len(pandas.read_json(sys.argv[1], lines=True)))",
    "datasets": (
        "import sys, tempfile, datasets; datasets.disable_progress_bars(); folder = tempfile.TemporaryDirectory(); "
        "print(len(datasets.load_dataset('json', data_files=sys.argv[1], cache_dir=folder.name, split='train')))"
    ),
}
EMPTY = {  # what a reader takes before it reads
    "memgrow": "import memgrow",
    "pandas": "import pandas",
    "datasets": "import datasets",
}


def make(path: Path, size: int, mean: int = MEAN_LETTERS) -> int:
    """Write a file of about this many bytes; returns its rows."""
    rng = random.Random(0)
    syllables = [a + b for a in "bcdfglmnprstv" for b in ("a", "e", "i", "o", "u")]
    words = sorted({"".join(rng.choices(syllables, k=rng.choice((1, 2, 3, 4)))) for _ in range(40_000)})
    rng.shuffle(words)
    often = list(accumulate(1 / (rank + 10) for rank in range(len(words))))
    fragments = [" ".join(rng.choices(words, cum_weights=often, k=FRAGMENT)) for _ in range(FRAGMENTS)]
    each = sum(map(len, fragments)) / len(fragments)
    rows = written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            text = ", ".join(rng.choices(fragments, k=max(1, round(rng.expovariate(each / mean)))))
            written += file.write(
                json.dumps({"text": f"{text} {rows % 997}", "label": "good" if rng.random() < 0.5 else "bad"})
            )
            written += file.write("\n")
            rows += 1
    return rows


def measured(command: list[str], stdin: Path | None = None) -> dict[str, float]:
    """Seconds of the CPU and peak MiB of a command, which must succeed.

    Linux counts what the process that starts a command has in memory as the command's, so that this one imports little.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    with (stdin or Path(os.devnull)).open("rb") as given:
        process = subprocess.Popen(command, stdin=given, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)[:200]} ended with code {process.returncode}")
    return {"seconds": round(usage.ru_utime + usage.ru_stime, 1), "peak_mib": round(usage.ru_maxrss / 1024)}


def adapted(path: Path, model: Path, limit: int | None = None) -> dict[str, float]:
    """What adapting to a file takes, or to so many of its rows; leaves a model."""
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    settings += [] if limit is None else ["--limit", str(limit)]
    return measured([*MEMGROW, "adapt", str(model), str(path), "--device", "cpu", *settings])


def predicted(path: Path, model: Path) -> dict[str, float]:
    """What predicting a file takes, from standard input to standard output."""
    return measured([*MEMGROW, "predict", str(model), "--device", "cpu"], stdin=path)


def reading(path: Path, peers: str | None) -> dict[str, dict[str, float]]:
    """MB a second of each reader, the time of its imports taken off, and the memory beyond that of its imports."""
    found = {}
    for name, code in READERS.items():
        package = name.split(",")[0]
        python = sys.executable if package == "memgrow" else peers
        if python is None:
            continue
        before, after = measured([python, "-c", EMPTY[package]]), measured([python, "-c", code, str(path)])
        found[name] = {
            "mb_per_second": round(path.stat().st_size / 1e6 / (after["seconds"] - before["seconds"]), 1),
            "beyond_mib": after["peak_mib"] - before["peak_mib"],
        }
        print(name, found[name], file=sys.stderr, flush=True)
    return found


@dataclass(frozen=True)
class Job:
    """A file of so many MB, of which at most so many rows of each part are learnt, and what is measured on it."""

    mb: int
    limit: int | None = None
    only: tuple[str, ...] = COMMANDS


WHOLE = (Job(BASE), Job(10), Job(100), Job(500), Job(1000, only=("adapt",)), Job(5000), Job(5000, 100_000, ("adapt",)))
WHOLE_READING = 200  # MB


def key_of(run: dict[str, Any]) -> tuple[int, int, int]:
    return run["mb"], run["mean_letters"], run.get("limit") or 0


def merged(*parts: dict[str, Any]) -> dict[str, Any]:
    """What several runs have found, the later ones over the earlier."""
    runs: dict[tuple[int, int, int], dict[str, Any]] = {}
    for part in parts:
        for run in part.get("runs", ()):
            runs[key_of(run)] = runs.get(key_of(run), {}) | run
    reading_of = next((part["reading"] for part in reversed(parts) if part.get("reading")), {})
    return {
        "command": "benchmarks/big_files.py",
        "machine": "CPU, one thread",
        "torch": version("torch"),
        "settings": SETTINGS,
        "runs": [runs[key] for key in sorted(runs)],
        "reading": reading_of,
    }


def measured_on(job: Job, mean: int, folder: Path) -> dict[str, Any]:
    """What a job finds; a model that has learnt the smallest file is left in the folder, or found there."""
    path = folder / f"made-{job.mb}.jsonl"
    rows = make(path, job.mb * 1_000_000, mean)
    print(f"{job.mb} MB, {rows:,} rows ...", file=sys.stderr, flush=True)
    run: dict[str, Any] = {"mb": job.mb, "mean_letters": mean, "rows": rows}
    run |= {} if job.limit is None else {"limit": job.limit}
    if "adapt" in job.only or job.mb == BASE:
        run["adapt"] = adapted(path, folder / f"model-{job.mb}-{job.limit}", job.limit)
        print("adapt", run["adapt"], file=sys.stderr, flush=True)
    if "predict" in job.only:
        run["predict"] = predicted(path, folder / f"model-{BASE}-None")
        print("predict", run["predict"], file=sys.stderr, flush=True)
    path.unlink()
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 100], help="MB")
    parser.add_argument("--mean", type=int, default=MEAN_LETTERS, help="letters of a text")
    parser.add_argument(
        "--limit", type=int, help="learn at most so many rows of each part of a file that is read whole"
    )
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=COMMANDS)
    parser.add_argument("--reading", type=int, help="MB of the file that readers are compared on")
    parser.add_argument("--whole", action="store_true", help="all sizes, limits and readers of the documentation")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="JSON", help="take these parts, and measure nothing")
    parser.add_argument("--peers", help="a Python with pandas and datasets")
    parser.add_argument("--folder", type=Path, help="for the files; a temporary one otherwise")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    known = [read(options.out)] if options.out and options.out.exists() else []
    if options.merge:
        tell(merged(*known, *map(read, options.merge)), options.out)
        return
    jobs: Sequence[Job] = WHOLE
    if not options.whole:
        further = [Job(size, options.limit, tuple(options.only)) for size in sorted({*options.sizes} - {BASE})]
        jobs = [Job(BASE, only=tuple(options.only)), *further]
    found = merged(*known)
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        for job in jobs:
            found = merged(found, {"runs": [measured_on(job, options.mean, folder)]})
            keep(found, options.out)
        if size := WHOLE_READING if options.whole else options.reading:
            path = folder / "made.jsonl"
            make(path, size * 1_000_000)
            found = merged(found, {"reading": {"mb": size, "readers": reading(path, options.peers)}})
    tell(found, options.out)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def keep(found: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def tell(found: dict[str, Any], path: Path | None) -> None:
    print(json.dumps(found, indent=1))
    keep(found, path)


if __name__ == "__main__":
    main()
