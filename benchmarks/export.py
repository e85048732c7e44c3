"""Exported models in onnxruntime beside the same models in torch: the same batches, one process, the same threads.

    python benchmarks/export.py --out results/export.json
    python benchmarks/export.py --quick --encoder FOLDER

A model's weights are random or, of an encoder, as they came: what it answers takes as long, and labels that are nearly
as probable as each other are the hardest to keep. Texts are made up, and read in batches of similar length, as
`Learner.predict` does; the time is that of the graph and of the model, without the tokens. All take turns in each
round; a figure is the median of rounds after one that is not counted. torch is tried with one thread as well, as small
models are faster so, and the faster of both is compared. Everything is in float32.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from memgrow.learnt import Learnt
from numpy.typing import NDArray

from memgrow.data import Example, synthetic_stream
from memgrow.data.batches import Batch, by_length, collate, token_mask
from memgrow.data.text import tokenize
from memgrow.data.vocabulary import Vocabulary
from memgrow.device import using_threads
from memgrow.learner import Learner
from memgrow.models import ModelSettings, PretrainedSettings, build
from memgrow.storage.export import export_onnx
from recorded_command import recorded_command

LABELS = ("bad", "good")
RECURRENT = {  # sizes by name
    "BiLSTM of 32, 32 slots": ModelSettings(embedding=32, hidden=32, slots=32, perceptron=64),
    "BiLSTM of 300, 500 slots": ModelSettings(),
    "BiLSTM of 300, no slots": ModelSettings(slots=0),
}
BATCHES = (1, 32)

Pass = Callable[[], list[NDArray[np.float32]]]


def made_up(count: int) -> list[str]:
    """Texts of one to six sentences."""
    stream = synthetic_stream(domains=4, train=100, validation=1, test=1, seed=1)
    sentences = [text for domain in stream for example in domain.train for text in example.texts]
    chance = random.Random(0)
    return [". ".join(chance.choices(sentences, k=chance.randint(1, 6))) for _ in range(count)]


def untrained(settings: ModelSettings, texts: Sequence[str]) -> Learner:
    """A learner that knows the words of the texts, and has learnt nothing."""
    learner = Learner.create("F", model=settings, device="cpu", task="text", labels=LABELS)
    words = Vocabulary() if learner.encoder else Vocabulary().extended(map(tokenize, texts))
    torch.manual_seed(0)
    model = build("text", learner.settings, len(words), len(LABELS), "first", learner.encoder)
    learner.take(Learnt("text", LABELS, model, words, learner.plugins, learner.history))
    return learner


def in_torch(learner: Learner, batches: Sequence[Batch], threads: int) -> Pass:
    model = learner.classifier().eval()

    def run() -> list[NDArray[np.float32]]:
        with torch.no_grad(), using_threads(threads):
            return [model(batch.words, batch.lengths).softmax(-1).numpy() for batch in batches]

    return run


def in_onnxruntime(folder: Path, batches: Sequence[Batch], threads: int) -> Pass:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    first, *second = [one.name for one in session.get_inputs()]
    given = [{first: batch.words.numpy()} for batch in batches]
    for inputs, batch in zip(given, batches, strict=True):
        inputs |= {name: token_mask(batch.words, batch.lengths).long().numpy() for name in second}
    return lambda: [session.run(None, inputs)[0] for inputs in given]


def take_turns(ways: dict[str, Pass], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way in each round; the first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def measure(name: str, settings: ModelSettings, texts: Sequence[str], asked: argparse.Namespace) -> dict[str, Any]:
    print(f"{name}:", file=sys.stderr, flush=True)
    learner = untrained(settings, texts)
    data = learner.encode([Example(text) for text in texts], labelled=False)
    found: dict[str, Any] = {"texts": len(texts)}
    with tempfile.TemporaryDirectory() as place:
        folder, began = Path(place, "out"), time.perf_counter()
        export_onnx(learner, folder)
        found |= {"export_seconds": round(time.perf_counter() - began, 1)}
        found |= {"megabytes": round(sum(path.stat().st_size for path in folder.iterdir()) / 1e6, 1)}
        for size in BATCHES:
            order = [list(some) for some in by_length(data, size)]
            if size == 1:
                order = order[:: -(-len(order) // asked.alone)]
            batches = [collate(data, some, torch.device("cpu")) for some in order]
            ways = {f"torch_{count}": in_torch(learner, batches, count) for count in sorted({1, asked.threads})}
            ways |= {"onnxruntime": in_onnxruntime(folder, batches, asked.threads)}
            seconds = take_turns(ways, asked.rounds)
            found[f"batches of {size}"] = compared(seconds, len(batches))
            if size != 1:
                ours, theirs = (np.concatenate(ways[name]()) for name in ("torch_1", "onnxruntime"))
                found["same_labels"] = int((ours.argmax(1) == theirs.argmax(1)).sum())
                found["largest_difference"] = float(f"{np.abs(ours - theirs).max():.1e}")
            print(f"  {found[f'batches of {size}']}", file=sys.stderr, flush=True)
    return found


def compared(seconds: dict[str, list[float]], batches: int) -> dict[str, Any]:
    """Milliseconds a batch, and how many times as fast onnxruntime is as the faster torch, round by round."""
    median = {name: statistics.median(some) for name, some in seconds.items()}
    best = min((name for name in seconds if name != "onnxruntime"), key=lambda name: median[name])
    ratios = [a / b for a, b in zip(seconds[best], seconds["onnxruntime"], strict=True)]
    return {
        "batches": batches,
        **{f"{name}_ms": round(1000 * some / batches, 3) for name, some in median.items()},
        "torch_ms": round(1000 * median[best] / batches, 3),
        "torch_threads": int(best.removeprefix("torch_")),
        "times_as_fast": round(statistics.median(ratios), 2),
        "ratios": [round(one, 2) for one in ratios],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm", help="a name, a folder or a hub name; none: no encoder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=100, help="texts that are read in batches of one")
    parser.add_argument("--quick", action="store_true", help="few texts, one round, small models")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.quick:
        asked.rounds, asked.texts, asked.alone = 1, 40, 4
    torch.set_num_threads(asked.threads)
    texts = made_up(asked.texts)
    models: dict[str, ModelSettings] = dict(list(RECURRENT.items())[: 1 if asked.quick else None])
    if asked.encoder != "none":
        plain = PretrainedSettings(encoder=asked.encoder, precision="float32")
        models |= {Path(asked.encoder).name: plain}
        with_slots = PretrainedSettings(encoder=asked.encoder, precision="float32", slots=256)
        models |= {} if asked.quick else {f"{Path(asked.encoder).name}, 256 slots in 2 layers": with_slots}
    found = {
        "command": recorded_command(__file__),
        "machine": {"cores": os.cpu_count(), "threads": asked.threads},
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
        "models": {name: measure(name, settings, texts, asked) for name, settings in models.items()},
    }
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
