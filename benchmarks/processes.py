"""Training an encoder by one process and by several that share each batch: seconds of the same training.

    python benchmarks/processes.py --out results/processes.json

A Transformer with random weights, of fewer units and layers than MiniLM, learns one made-up domain for an epoch by
`memgrow adapt`. All runs may use the same number of threads in all: one process has all of them, each of several its
part. Runs take turns; seconds are those that the model's history tells of the stage, so that imports and the start of
processes do not count, and the least of the rounds is taken.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from many_domains_stream import make_encoder, make_stream, words_of
from recorded_command import recorded_command

ROOT = Path(__file__).resolve().parents[1]
MAIN = "from memgrow.cli import main; main()"
SIZES = {"width": 256, "layers": 3, "longest": 80}
TEXTS, WORDS, BATCH = 128, 48, 32


def make_data(path: Path, words: list[str]) -> None:
    chance = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(TEXTS):
            text = " ".join(chance.choices(words, k=WORDS))
            file.write(json.dumps({"text": text, "label": ("good", "bad")[number % 2]}) + "\n")


def seconds_of(encoder: Path, data: Path, folder: Path, processes: int, threads: int) -> float:
    command = ["adapt", folder, data, "--encoder", encoder, "--device", "cpu", "--processes", processes]
    settings = {"epochs": 1, "batch": BATCH, "precision": "float32", "dropout": 0.0, "max_words": 64}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    given = [sys.executable, "-c", MAIN, *map(str, command), "--method", "F", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(given, env=environment, stdout=subprocess.DEVNULL, check=True)
    stages = json.loads((folder / "history.json").read_text(encoding="utf-8"))["stages"]
    return float(stages[-1]["seconds"])


def measured(processes: list[int], threads: int, rounds: int) -> dict[str, Any]:
    taken: dict[int, list[float]] = {number: [] for number in processes}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        stream = make_stream(8, (64, 8, 8))
        encoder, data = make_encoder(folder / "encoder", stream, **SIZES), folder / "made.jsonl"
        make_data(data, words_of(40, "words"))
        for turn in range(rounds):
            for number in processes:
                taken[number].append(seconds_of(encoder, data, folder / f"m-{turn}-{number}", number, threads))
                print(f"{number} processes: {taken[number][-1]:.1f} s", file=sys.stderr, flush=True)
    least = {number: min(spent) for number, spent in taken.items()}
    return {
        "command": recorded_command(__file__),
        "sizes": SIZES,
        "texts": TEXTS,
        "words": WORDS,
        "batch": BATCH,
        "threads": threads,
        "seconds": least,
        "times as fast": {number: least[processes[0]] / spent for number, spent in least.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found = measured(asked.processes, asked.threads, asked.rounds)
    print(json.dumps(found, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
