"""Peak memory and time against the size of a file: adapting to it, predicting it, and reading it beside others.

    python benchmarks/big_files.py --whole --peers VENV/bin/python --out results/big-files.json
    python benchmarks/big_files.py --sizes 10 100 --out part.json

Files are made up: JSON lines of two labels, a thousand letters each in the mean, with some 30,000 different words.
Sizes are in MB (10^6 bytes). Each command is the one that users run, in a process of its own, and its peak memory is
what the system says of that process when it has ended (`ru_maxrss`); seconds are those of the CPU, so that it matters
little what else the machine does. The model is tiny and learns for one epoch, so that what is measured is the data; the
model that predicts has learnt the smallest file. `--whole` measures all that docs/large-files.md shows, two commands at
a time, which takes about ten minutes of two cores and twelve gigabytes of disk; one that was stopped goes on with what
is missing, which stands in OUT.unfinished. `--peers` is a Python that has pandas and datasets.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

from recorded_command import recorded_command

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
    "memgrow": "from memgrow.data import load_stream; from memgrow.data.records import TableReader",
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
            label = "good" if rng.random() < 0.5 else "bad"  # no letter of these has to be escaped
            written += file.write(f'{{"text": "{text} {rows % 997}", "label": "{label}"}}\n')
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
        spent = max(after["seconds"] - before["seconds"], 0.1)  # to a tenth of a second: files should be large
        found[name] = {
            "mb_per_second": round(path.stat().st_size / 1e6 / spent, 1),
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


WHOLE = (Job(BASE), Job(10), Job(100), Job(500), Job(5000))
WHOLE_READING = 200  # MB


def key_of(run: dict[str, Any]) -> tuple[int, int, int]:
    return run["mb"], run["mean_letters"], run.get("limit") or 0


def merged(*parts: dict[str, Any]) -> dict[str, Any]:
    """What was found at several times, the later over the earlier."""
    runs: dict[tuple[int, int, int], dict[str, Any]] = {}
    for part in parts:
        for run in part.get("runs", ()):
            runs[key_of(run)] = runs.get(key_of(run), {}) | run
    earlier = next((part["command"] for part in parts if "command" in part), None)
    return {
        "command": recorded_command(__file__, earlier=earlier),
        "machine": "CPU, one thread",
        "torch": version("torch"),
        "settings": SETTINGS,
        "runs": [runs[key] for key in sorted(runs)],
        "reading": next((part["reading"] for part in reversed(parts) if part.get("reading")), {}),
        "wall_seconds": round(sum(part.get("wall_seconds", 0) for part in parts)),
    }


class Measurement:
    """What has been found so far, kept in a file, so that a run that is stopped goes on."""

    def __init__(self, folder: Path, mean: int, path: Path | None) -> None:
        self.folder, self.mean, self.path = folder, mean, path
        self.found = read(path) if path is not None and path.exists() else merged()
        self._lock, self._made = Lock(), dict[int, Future[int]]()
        self._began = time.monotonic()

    def has(self, job: Job, command: str) -> bool:
        runs = {key_of(run): run for run in self.found["runs"]}
        return command in runs.get((job.mb, self.mean, job.limit or 0), {})

    def add(self, found: dict[str, Any]) -> None:
        with self._lock:
            spent, self._began = time.monotonic() - self._began, time.monotonic()
            self.found = merged(self.found, {**found, "wall_seconds": spent})
            keep(self.found, self.path)

    def file_of(self, mb: int) -> tuple[Path, int]:
        """A file of that size and its rows; whoever asks first makes it, and others wait for it."""
        path = self.folder / f"made-{mb}.jsonl"
        with self._lock:
            mine = mb not in self._made
            made = self._made.setdefault(mb, Future())
        if mine:
            print(f"{mb} MB are made ...", file=sys.stderr, flush=True)
            code = "import sys, big_files; print(big_files.make(big_files.Path(sys.argv[1]), *map(int, sys.argv[2:])))"
            command = [sys.executable, "-c", code, str(path), str(mb * 1_000_000), str(self.mean)]
            try:
                said = subprocess.run(command, cwd=ROOT / "benchmarks", stdout=subprocess.PIPE, check=True).stdout
                made.set_result(int(said))
            except BaseException as error:  # whoever waits for the file would wait for ever
                made.set_exception(error)
                raise
        return path, made.result()

    def measure(self, job: Job, command: str) -> None:
        """What a command takes for a file, unless it is known; a model of the smallest file must be there."""
        model = self.folder / f"model-{job.mb}-{job.limit}"
        if self.has(job, command) and job.mb != BASE:
            return
        path, rows = self.file_of(job.mb)
        run: dict[str, Any] = {"mb": job.mb, "mean_letters": self.mean, "rows": rows}
        run |= {} if job.limit is None else {"limit": job.limit}
        if command == "adapt":
            run[command] = adapted(path, model, job.limit)
        else:
            run[command] = predicted(path, self.folder / f"model-{BASE}-None")
        print(f"{job.mb} MB, {rows:,} rows, {command}: {run[command]}", file=sys.stderr, flush=True)
        self.add({"runs": [run]})

    def compare_readers(self, mb: int, peers: str | None) -> None:
        if not self.found["reading"]:
            self.add({"reading": {"mb": mb, "readers": reading(self.file_of(mb)[0], peers)}})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 100], help="MB")
    parser.add_argument("--mean", type=int, default=MEAN_LETTERS, help="letters of a text")
    parser.add_argument(
        "--limit", type=int, help="learn at most so many rows of each part of a file that is read whole"
    )
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=COMMANDS)
    parser.add_argument("--reading", type=int, help="MB of the file that readers are compared on")
    parser.add_argument("--whole", action="store_true", help="all sizes and readers of the documentation")
    parser.add_argument("--peers", help="a Python with pandas and datasets")
    parser.add_argument("--folder", type=Path, help="for the files; a temporary one otherwise")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    further = [Job(size, options.limit, tuple(options.only)) for size in sorted({*options.sizes} - {BASE})]
    jobs = WHOLE if options.whole else (Job(BASE, only=tuple(options.only)), *further)
    if options.whole and options.peers is None:
        parser.error("--whole compares readers: name a Python that has pandas and datasets with --peers")
    unfinished = None if options.out is None else options.out.with_name(f"{options.out.name}.unfinished")
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        measurement = Measurement(Path(made), options.mean, unfinished)
        base, *others = jobs
        for command in dict.fromkeys(("adapt", *base.only)):
            measurement.measure(base, command)
        with ThreadPoolExecutor(len(COMMANDS)) as at_once:
            list(at_once.map(lambda order: [measurement.measure(*one) for one in order], two_orders(others)))
        if size := WHOLE_READING if options.whole else options.reading:
            measurement.compare_readers(size, options.peers)
    tell(measurement.found, options.out)
    if unfinished is not None:
        unfinished.unlink(missing_ok=True)


def two_orders(jobs: Sequence[Job]) -> list[list[tuple[Job, str]]]:
    """What is measured at the same time: the largest file is predicted while all else is measured, it itself last."""
    every = [(job, command) for job in jobs for command in reversed(job.only)]
    alone = [one for one in every[-len(COMMANDS) :] if one == (jobs[-1], "predict")]
    return [alone, [one for one in every if one not in alone]]


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
