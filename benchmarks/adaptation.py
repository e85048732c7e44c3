"""A whole adaptation, from the start of the process and data on disk to test accuracy: one domain, then another.

    python benchmarks/adaptation.py --data MULTINLI --vectors VECTORS --device cuda --tf32 --modes alone
    python benchmarks/adaptation.py --quick

Fiction, then government, by F+M+V with the paper's sizes, batches of 32 and early stopping: one learner alone, and
twelve that differ in their seed side by side. Each mode is a process of its own, and its time counts from the start of
that process. On a GPU a lone learner is a stack of one; `--modes "alone, plain loop"` times the loop that is
taken elsewhere. `--data` is a folder in MultiNLI's own layout; `--quick` makes up data and sizes, and takes seconds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from memgrow.data import Domain, Example, synthetic_stream
from memgrow.data.corpora.multinli import HELD_OUT, TRAIN, open_multinli
from memgrow.learner import Learner
from memgrow.lockstep import adapt_together, correct_together
from memgrow.models import ModelSettings
from memgrow.progress import NoProgress, Step
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked.together import PLAIN
from recorded_command import recorded_command

METHOD, GENRES, BATCH = "F+M+V", ("fiction", "government"), 32
PLAINLY, ALONE, TOGETHER = "alone, plain loop", "alone", "side by side"
SIZES = {  # by whether it is to be quick
    False: (ModelSettings(), TrainingSettings(batch=BATCH)),
    True: (ModelSettings(embedding=8, hidden=8, slots=8, perceptron=8), TrainingSettings(batch=BATCH, epochs=2)),
}
QUICK_SEEDS = 3


# What a process does


@dataclass
class Clock(NoProgress):
    """Notes when training was first and last heard of."""

    first: float = 0.0
    last: float = 0.0

    def step(self, step: Step) -> None:
        self.last = time.time()
        self.first = self.first or self.last


def work(
    data: Path, vectors: Path, seeds: Sequence[int], device: str, quick: bool, began: float, loop: str | None = None
) -> dict[str, Any]:
    """Train learners of these seeds, alone if there is one; `began` is when the process was started."""
    parts: dict[str, float] = {"imports": time.time() - began}
    at = time.time()
    stream = open_multinli(data, GENRES).stream
    parts["reading"] = time.time() - at
    model, training = SIZES[quick]
    learners = [Learner.create(METHOD, model=model, training=training, seed=seed, device=device) for seed in seeds]
    for domain in stream:
        clock, at = Clock(), time.time()
        if len(learners) == 1:
            learners[0].adapt(domain, vectors=vectors, progress=clock, loop=loop)
        else:
            adapt_together(learners, domain, vectors=vectors, progress=clock, describe=False)
        parts[f"{domain.name}: words, vectors, first step"] = clock.first - at
        parts[f"{domain.name}: training"] = clock.last - clock.first
        parts[f"{domain.name}: testing"] = time.time() - clock.last
        print(f"  {domain.name}: {time.time() - at:.1f} s, {len(learners)} learner(s)", file=sys.stderr, flush=True)
    at = time.time()
    right = {domain.name: correct_together(learners, domain) for domain in stream}
    parts["testing all domains at the end"] = time.time() - at
    return {
        "seconds": time.time() - began,
        "parts": parts,
        "learners": [_told(learner, {name: right[name][n] for name in right}) for n, learner in enumerate(learners)],
        "machine": torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "pairs": {domain.name: _sizes(domain) for domain in stream},
    }


def _told(learner: Learner, right: dict[str, list[bool]]) -> dict[str, Any]:
    return {
        "seed": learner.seed,
        "epochs": [stage.epochs for stage in learner.history.stages],
        "test": {name: sum(answers) / len(answers) for name, answers in right.items()},
    }


def _sizes(domain: Domain) -> dict[str, int]:
    return {part: len(getattr(domain, part)) for part in ("train", "validation", "test")}


# What starts the processes


def measure(seeds: Sequence[int], processes: int, asked: argparse.Namespace, mode: str = TOGETHER) -> dict[str, Any]:
    """Start as many processes, each with its share of the seeds, and wait for all of them."""
    began = time.time()
    shares = [seeds[number::processes] for number in range(processes)]
    running = [subprocess.Popen(_command(share, asked, mode), stdout=subprocess.PIPE, text=True) for share in shares]
    said = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("a process failed; what it said is above")
    found = [json.loads(text) for text in said]
    slowest = max(found, key=lambda one: one["seconds"])
    learners = sorted((learner for one in found for learner in one["learners"]), key=lambda one: one["seed"])
    return {
        "seconds": round(time.time() - began, 2),  # with the end of the processes
        "processes": processes,
        "parts": {name: round(seconds, 2) for name, seconds in slowest["parts"].items()},
        "learners": learners,
        **{name: slowest[name] for name in ("machine", "torch", "pairs")},
    }


def _command(seeds: Sequence[int], asked: argparse.Namespace, mode: str) -> list[str]:
    flags = [flag for flag in ("--tf32", "--quick") if getattr(asked, flag[2:])]
    flags += ["--modes", mode]
    given = ["--data", asked.data, "--vectors", asked.vectors, "--device", asked.device, *flags]
    work = ["--work", *map(str, seeds), "--began", str(time.time())]
    return [sys.executable, __file__, *map(str, given), *work]


def made_up(folder: Path) -> tuple[Path, Path]:
    """A folder in MultiNLI's layout and a file of vectors, from the corpus that memgrow makes by rule."""
    stream = synthetic_stream(domains=len(GENRES), train=160, validation=0, test=80)
    for file, part in ((TRAIN, "train"), (HELD_OUT, "test")):
        rows = [_row(genre, one) for genre, domain in zip(GENRES, stream, strict=True) for one in getattr(domain, part)]
        (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = sorted({word for domain in stream for one in domain.train for text in one.texts for word in text.split()})
    places = range(SIZES[True][0].embedding)
    lines = [" ".join((word, *(str((7 * n + place) % 9 / 9) for place in places))) for n, word in enumerate(words)]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder, folder / "vectors.txt"


def _row(genre: str, example: Example) -> dict[str, str | None]:
    pair = {"sentence1": example.text, "sentence2": example.pair}
    return {"gold_label": example.label, "genre": genre, "promptID": example.text, **pair}


def report(asked: argparse.Namespace) -> dict[str, Any]:
    seeds = range(QUICK_SEEDS if asked.quick else asked.seeds)
    model, training = SIZES[asked.quick]
    found: dict[str, Any] = {
        "command": recorded_command(__file__),
        "precision": "TF32" if asked.tf32 else "float32",
        "method": METHOD,
        "model": asdict(model),
        "training": asdict(training),
        "modes": {},
    }
    for mode in asked.modes:
        print(f"{mode}:", file=sys.stderr, flush=True)
        one = measure(seeds, asked.processes, asked) if mode == TOGETHER else measure(seeds[:1], 1, asked, mode)
        found |= {name: one.pop(name) for name in ("machine", "torch", "pairs")}
        found["modes"][mode] = one
        print(f"{mode}: {one['seconds']:.1f} s for {len(one['learners'])} learner(s)", file=sys.stderr, flush=True)
    return found


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--tf32", action="store_true", help="let the GPU round factors to TF32, as the experiments do")
    parser.add_argument("--modes", nargs="+", choices=[PLAINLY, ALONE, TOGETHER], default=[ALONE, TOGETHER])
    parser.add_argument("--seeds", type=int, default=12, help="learners side by side")
    parser.add_argument("--processes", type=int, default=1, help="that share the learners side by side")
    parser.add_argument("--quick", action="store_true", help="made-up data and sizes, on the CPU")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=int, nargs="+", help=argparse.SUPPRESS)  # the seeds of a process of ours
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    parser = options()
    asked = parser.parse_args()
    if asked.work:
        torch.set_float32_matmul_precision("high" if asked.tf32 else "highest")
        loop = PLAIN if asked.modes == [PLAINLY] else None
        given = (asked.data, asked.vectors, asked.work, asked.device, asked.quick, asked.began, loop)
        print(json.dumps(work(*given)))
        return
    if not asked.quick and not (asked.data and asked.vectors):
        parser.error("give --data and --vectors, or --quick")
    with tempfile.TemporaryDirectory() as folder:
        if asked.quick:
            asked.data, asked.vectors = made_up(Path(folder))
        found = report(asked)
    text = json.dumps(found, indent=1)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
