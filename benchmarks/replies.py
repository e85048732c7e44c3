"""Training of the model that replies, at the paper's sizes: memgrow's own backend against the plain loop, in one run.

    python benchmarks/replies.py --device cuda --tf32 --out results/replies-h200.json
    python benchmarks/replies.py --quick

Sizes and batch are those of the recipe paper-dialogue (GRU 1,024, 1,024 slots in each of two banks), words 27,000.
Both train the same model on the same batches of made-up words; they differ in the recurrence. Batches are taken at
even distances from an epoch that is sorted by length, so that a few stand for all. `--lengths` is a file with the
lengths of a message and its reply in each line; without it they are drawn to be like Cornell's (median 9, mean 13.4).
"""

import argparse
import json
import platform
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from memgrow.methods.trains import everything
from memgrow.training.plain_stepper import PlainStepper
from torch import nn

from memgrow.cli.recipe import read_recipe
from memgrow.data.batches import Batch, Encoded, collate, shuffled
from memgrow.device import find_device
from memgrow.methods import Plugins
from memgrow.models import ModelSettings, build
from memgrow.models.responder import teacher_forced
from memgrow.training.settings import TrainingSettings
from recorded_command import recorded_command

RECIPE = "paper-dialogue"
EPOCH = 115_380  # Cornell's training pairs
VARIANTS = {"plain loop": "naive", "memgrow": "auto"}


@dataclass(frozen=True)
class Size:
    model: ModelSettings
    training: TrainingSettings
    words: int
    pairs: int  # that batches are taken from


def paper() -> Size:
    recipe = read_recipe(RECIPE)
    return Size(
        recipe.section("model", ModelSettings()), recipe.section("training", TrainingSettings()), 27_000, 20_000
    )


def quick() -> Size:
    size = paper()
    return replace(size, model=replace(size.model, embedding=12, hidden=16, slots=8), words=2500, pairs=640)


def drawn_lengths(count: int) -> list[tuple[int, int]]:
    rng = random.Random(1)
    message, reply = ([min(400, max(1, round(rng.lognormvariate(2.2, 0.89)))) for _ in range(count)] for _ in range(2))
    return list(zip(message, reply, strict=True))


def read_lengths(path: Path, count: int) -> list[tuple[int, int]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(int(a), int(b)) for a, b in (line.split() for line in lines[:: max(1, len(lines) // count)])]


def made_up(lengths: Sequence[tuple[int, int]], words: int) -> Encoded:
    rng = random.Random(0)
    texts = [tuple([rng.randrange(2, words) for _ in range(n)] for n in pair) for pair in lengths]
    return Encoded(texts, [-1] * len(texts), answered=True)


def some_batches(data: Encoded, batch: int, steps: int) -> list[list[int]]:
    """So many whole batches from short to long."""
    whole = [one for one in shuffled(data, batch, 0, 0) if len(one) == batch]
    ordered = sorted(whole, key=lambda one: sum(data.length(index) for index in one))
    return [ordered[round((number + 0.5) * len(ordered) / steps - 0.5)] for number in range(steps)]


class Trainer:
    """One variant, ready to train."""

    def __init__(self, size: Size, backend: str, device: torch.device) -> None:
        torch.manual_seed(0)
        self.model = build("reply", size.model, size.words).to(device)
        self.device, self.clip = device, size.training.clip
        for column in (*self.model.encoder.columns, *self.model.decoder.columns):
            column.backend = backend
        self.settings, self.trains = size.training, everything(None, self.model)
        self.optimiser = torch.optim.Adam(self.trains.prepare(self.model), lr=size.training.rate, fused=True)
        self.stepper: PlainStepper | None = None

    def train(self, data: Encoded, batches: Sequence[Sequence[int]]) -> None:
        if self.stepper is None:
            nothing = Plugins([])
            self.stepper = PlainStepper(
                self.model, data, data, settings=self.settings, trains=self.trains, plugins=nothing
            )
        list(self.stepper.epoch(0, [batches], 0))

    def parts(self, data: Encoded, batches: Sequence[Sequence[int]]) -> dict[str, float]:
        """Milliseconds of a step's parts, each waited for, so that they do not add up to a step.

        Only for a trainer that has not trained yet: all of its words are moved in each step.
        """
        spent: dict[str, list[float]] = {}

        def timed(name: str, run: Callable[[], Any]) -> Any:
            began = self._now()
            done = run()
            spent.setdefault(name, []).append(self._now() - began)
            return done

        for indices in (batches[-1], *batches):  # the first one is not counted: much is made ready by it
            batch: Batch = timed("batch", lambda indices=indices: collate(data, indices, self.device))
            (words, replies), (lengths, ends) = batch.words.chunk(2), batch.lengths.chunk(2)
            known = teacher_forced(replies, ends)
            model, vectors = self.model, self.model.encoder.embedding.weight
            self.optimiser.zero_grad(set_to_none=True)
            rows = timed("forward", lambda: model.rows(words, lengths, known))  # noqa: B023
            output = model.heads[-1].output
            total, _ = timed("output layer, both ways", lambda: output.loss(rows, known.targets, vectors))  # noqa: B023
            timed("backward", lambda: (total / len(known.targets)).backward())  # noqa: B023
            timed("clipping", lambda: nn.utils.clip_grad_norm_(list(model.parameters()), self.clip))  # noqa: B023
            timed("Adam, all words", self.optimiser.step)
        return {name: round(1000 * fmean(times[1:]), 3) for name, times in spent.items()}

    def seconds(self, data: Encoded, batches: Sequence[Sequence[int]], rounds: int) -> float:
        self.train(data, batches)
        times = []
        for _ in range(rounds):
            began = self._now()
            self.train(data, batches)
            times.append(self._now() - began)
        return min(times)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {torch.get_num_threads()} threads"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--tf32", action="store_true", help="let the GPU round factors to TF32, as the experiments do")
    parser.add_argument("--lengths", type=Path)
    parser.add_argument("--batch", type=int, help="another batch than the recipe's")
    parser.add_argument("--steps", type=int, help="batches to train on; by default 60 on a GPU, 6 elsewhere")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that it works")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    device, size = find_device(options.device), quick() if options.quick else paper()
    batch, steps = options.batch or size.training.batch, options.steps or (60 if options.device == "cuda" else 6)
    lengths = read_lengths(options.lengths, size.pairs) if options.lengths else drawn_lengths(size.pairs)
    data = made_up(lengths, size.words)
    batches = some_batches(data, batch, steps)
    seconds, parts = {}, {}
    for variant, backend in VARIANTS.items():
        seconds[variant] = Trainer(size, backend, device).seconds(data, batches, options.rounds)
        parts[variant] = Trainer(size, backend, device).parts(data, batches)
        print(f"{variant}: {1000 * seconds[variant] / steps:.1f} ms a step", flush=True)
    found: dict[str, Any] = {
        "command": recorded_command(__file__),
        "machine": machine(device),
        "precision": "TF32" if options.tf32 else "float32",
        "torch": torch.__version__,
        "quick": options.quick,
        "model": {name: getattr(size.model, name) for name in ("cell", "embedding", "hidden", "slots")},
        "words": size.words,
        "batch": batch,
        "steps": steps,
        "lengths": "from a file" if options.lengths else "drawn",
        "mean_lengths": [round(fmean(pair[side] for pair in lengths), 1) for side in range(2)],
        "times_plain_loop": {variant: round(seconds["plain loop"] / value, 2) for variant, value in seconds.items()},
        "examples_per_second": {variant: round(batch * steps / value, 1) for variant, value in seconds.items()},
        "epoch": {
            "pairs": EPOCH,
            "seconds": {variant: round(EPOCH / batch * value / steps, 1) for variant, value in seconds.items()},
        },
        "milliseconds_of_parts": parts,
    }
    print(json.dumps(found, indent=1))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
