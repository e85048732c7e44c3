"""Processor seconds of a first model: `memgrow adapt` on 300 rows with the default encoder and one thread.

    python benchmarks/first_model.py --out results/first_model/seconds.json
    python benchmarks/first_model.py --profile --out results/first_model/profile.json

Other programs on the machine only add to the seconds, so the least of the rounds is reported.
"""

import argparse
import cProfile
import json
import os
import platform
import pstats
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from memgrow.data.corpora import open_corpus
from recorded_command import recorded_command

DOMAINS = ("films", "products", "tweets")
ROWS = 300
PARTS = {  # of the profile: functions and the files that they are in
    "forward pass and loss": ("training_step", "classifier.py"),
    "backward pass": ("backward", "_tensor.py"),
    "optimizer": ("step", "adam.py"),
    "clipping the gradient": ("clip_grad_norm_", "clip_grad.py"),
    "validation and test": ("score", "base.py"),
    "saving the unfinished training": ("save", "progress.py"),
    "entry of the domain memory": ("finish_domain", "memory.py"),
    "importing": ("exec_module", "importlib._bootstrap_external>"),
    "saving the model": ("write_checkpoint", "versions.py"),
}


def write_rows(name: str, file: Path) -> None:
    domain = open_corpus("sentiment", domains=[name]).stream[name]
    rows = [{"text": one.text, "label": one.label} for one in (*domain.train, *domain.validation)]
    drawn = random.Random(0).sample(rows, ROWS)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in drawn), encoding="utf-8")


def adapt(file: Path, folder: Path) -> dict[str, Any]:
    """One training in a process of its own."""
    words = [sys.executable, "-m", "memgrow", "adapt", str(folder), str(file), "--threads", "1"]
    began = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"memgrow adapt failed on {file.name}")
    return {
        "processor": round(used.ru_utime + used.ru_stime, 2),
        "wall": round(time.monotonic() - began, 2),
        "peak MB": round(used.ru_maxrss / 1024),
        "written MB": round(used.ru_oublock * 512 / 1e6),
    }


def profile(file: Path, folder: Path) -> dict[str, float]:
    """Processor seconds of the parts of one training, with what they call; the profile itself adds some."""
    from memgrow.cli import main

    profiler, began = cProfile.Profile(time.process_time), time.process_time()
    sys.argv = ["memgrow", "adapt", str(folder), str(file), "--threads", "1"]
    with suppress(SystemExit):
        profiler.runcall(main)
    whole = time.process_time() - began
    found: dict[tuple[str, int, str], Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    seconds = {
        part: round(sum(one[3] for key, one in found.items() if key[2] == name and key[0].endswith(place)), 2)
        for part, (name, place) in PARTS.items()
    }
    return {**seconds, "all": round(whole + began, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="where the time goes, on one of the domains")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    value: dict[str, Any] = {"command": recorded_command(__file__), "rows": ROWS, "threads": 1}
    value |= {"torch": torch.__version__, "python": platform.python_version()}

    def write() -> None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    with TemporaryDirectory() as place:
        files = {name: Path(place) / f"{name}.jsonl" for name in DOMAINS}
        for name, file in files.items():
            write_rows(name, file)
        if given.profile:
            value["seconds"] = profile(files[DOMAINS[-1]], Path(place) / "profiled")
            write()
            return
        runs: dict[str, Any] = {name: [] for name in DOMAINS}
        value |= {"runs": runs}
        for number in range(given.rounds):
            for name in DOMAINS:
                runs[name].append(adapt(files[name], Path(place) / f"{name}-{number}"))
                print(name, runs[name][-1], flush=True)
        write()


if __name__ == "__main__":
    main()
