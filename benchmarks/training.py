"""Training and prediction of the whole pair classifier, against what people write by hand, in one run.

    python benchmarks/training.py --lengths real.txt --out results/training-cpu.json

Three variants with the same sizes (the paper's: hidden 300, 500 slots, batch 32) on the same made-up word indices:
by hand (the plain loop, premise and hypothesis one after the other, batches in shuffled order and padded), the plain
loop on memgrow's batches, and memgrow. `--lengths` is a file with the two lengths of a pair in each line, to follow a
real corpus; without it lengths are drawn to be like MultiNLI's (means of about 22 and 11 words). Each has a process
of its own, one after another: the plain loop takes and returns so much memory that its speed depends on what the
process did before, by a quarter and more.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.data.batches import Encoded, collate, shuffled
from memgrow.models import ModelSettings, PairClassifier, build
from recorded_command import recorded_command

BATCH, WORDS, LABELS, CPU = 32, 9000, 3, torch.device("cpu")


def made_up(lengths: list[tuple[int, int]]) -> Encoded:
    rng = random.Random(0)
    texts = [tuple([rng.randrange(2, WORDS) for _ in range(n)] for n in pair) for pair in lengths]
    return Encoded(texts, [rng.randrange(LABELS) for _ in texts])


def drawn_lengths(count: int) -> list[tuple[int, int]]:
    rng = random.Random(1)
    return [
        (max(1, round(rng.lognormvariate(2.85, 0.65))), max(1, round(rng.lognormvariate(2.3, 0.4))))
        for _ in range(count)
    ]


def by_hand(model: PairClassifier, data: Encoded, indices: list[int]) -> Tensor:
    """Logits as a straightforward program has them: each side padded and run by itself, every padded step computed."""
    sides = []
    for side in range(2):
        rows = [torch.tensor(data.texts[i][side]) for i in indices]
        words = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = (words > 0).float().unsqueeze(-1)
        states, _ = model.encoder.newest(model.encoder.embedding(words).transpose(0, 1))
        sides.append((states.transpose(0, 1) * mask).sum(1) / mask.sum(1))
    u, v = sides
    return model.heads[-1](torch.cat((u, v, u * v, (u - v).abs()), -1))


def new_model(backend: str) -> PairClassifier:
    torch.manual_seed(0)
    model = build("pair", ModelSettings(), WORDS, LABELS)
    model.encoder.newest.backend = backend
    return model


def hand_trainer(data: Encoded) -> Callable[[], None]:
    model = new_model("naive")
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-4)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0)).tolist()

    def run() -> None:
        for at in range(0, len(order), BATCH):
            indices = order[at : at + BATCH]
            optimiser.zero_grad()
            labels = torch.tensor([data.labels[i] for i in indices])
            F.cross_entropy(by_hand(model, data, indices), labels).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()

    return run


def our_trainer(data: Encoded, backend: str) -> Callable[[], None]:
    model = new_model(backend)
    optimizer, order = torch.optim.Adam(model.parameters(), lr=3e-4, fused=True), shuffled(data, BATCH, 0, 0)
    model.train()

    def run() -> None:  # the steps of memgrow.training.loop
        for indices in order:
            optimizer.zero_grad(set_to_none=True)
            model.training_step(collate(data, indices, CPU)).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()

    return run


def hand_predictor(data: Encoded) -> Callable[[], None]:
    model = new_model("naive").eval()

    def run() -> None:
        with torch.no_grad():
            for at in range(0, len(data), BATCH):
                by_hand(model, data, list(range(at, min(at + BATCH, len(data)))))

    return run


def our_predictor(data: Encoded, backend: str) -> Callable[[], None]:
    model = new_model(backend)
    return lambda: (model.logits(data), None)[1]


def pairs_per_second(run: Callable[[], None], pairs: int, rounds: int) -> float:
    run()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return pairs / min(times)


def training_gflop(*lengths: int) -> float:
    """The work of a pair's products, forward and backward: three times those of the recurrence; the rest is small."""
    s = ModelSettings()
    inputs, content, slots = s.embedding * 4 * s.hidden, 2 * s.hidden * 4 * s.hidden, 2 * s.slots * s.hidden
    return 3 * 2 * 2 * sum(lengths) * (inputs + content + slots) / 1e9


def product_rate() -> float:
    """GFLOP/s of a large matrix product: what the machine can do at best."""
    a = torch.randn(2048, 2048)
    return pairs_per_second(lambda: (a @ a, None)[1], 1, 5) * 2 * 2048**3 / 1e9


def chosen_lengths(file: Path | None) -> list[tuple[int, int]]:
    if file is None:
        return drawn_lengths(4000)
    lines = file.read_text(encoding="utf-8").splitlines()
    return [(int(a), int(b)) for a, b in (line.split() for line in lines)]


HAND, PLAIN, OURS = "by hand", "plain loop, memgrow's batches", "memgrow"
VARIANTS: dict[str, dict[str, Callable[[Encoded], Callable[[], None]]]] = {
    "training": {
        HAND: hand_trainer,
        PLAIN: lambda data: our_trainer(data, "naive"),
        OURS: lambda data: our_trainer(data, "auto"),
    },
    "prediction": {
        HAND: hand_predictor,
        PLAIN: lambda data: our_predictor(data, "naive"),
        OURS: lambda data: our_predictor(data, "auto"),
    },
}


def subject(task: str, data: Encoded, steps: int) -> Encoded:
    """The data of a task, the same for all variants: a few steps' pairs, each learnt once, or all of the file."""
    return data.some(range(min(len(data), steps * BATCH))) if task == "training" else data


def measured(task: str, variant: str, options: argparse.Namespace) -> float:
    """Pairs a second, by a process of its own."""
    given = ["--steps", str(options.steps), "--rounds", str(options.rounds), "--work", task, variant]
    lengths = ["--lengths", str(options.lengths)] if options.lengths else []
    print(f"{task}, {variant} ...", file=sys.stderr, flush=True)
    said = subprocess.run([sys.executable, __file__, *lengths, *given], stdout=subprocess.PIPE, text=True, check=True)
    return float(said.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)  # the task and the variant of a process of ours
    options = parser.parse_args()
    lengths = chosen_lengths(options.lengths)
    data = made_up(lengths)
    if options.work:
        task, variant = options.work
        few = subject(task, data, options.steps)
        print(pairs_per_second(VARIANTS[task][variant](few), len(few), options.rounds))
        return
    speeds = {
        task: {variant: measured(task, variant, options) for variant in variants} for task, variants in VARIANTS.items()
    }
    few = subject("training", data, options.steps)
    rate, work = product_rate(), fmean(training_gflop(*map(len, texts)) for texts in few.texts)
    found: dict[str, Any] = {
        "command": recorded_command(__file__),
        "machine": f"CPU, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "lengths": "from a file" if options.lengths else "drawn",
        "mean_lengths": [round(sum(pair[side] for pair in lengths) / len(lengths), 1) for side in range(2)],
        "ratio_to_by_hand": {
            task: {variant: round(value / values[HAND], 2) for variant, value in values.items()}
            for task, values in speeds.items()
        },
        "pairs_per_second": speeds,
        "large_product_gflops": round(rate, 1),
        "training_gflops": {variant: round(value * work, 1) for variant, value in speeds["training"].items()},
        "share_of_large_product": {
            variant: round(value * work / rate, 2) for variant, value in speeds["training"].items()
        },
    }
    print(json.dumps(found, indent=1))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
