"""Prediction on one thread of a CPU: memgrow, sentence-transformers, onnxruntime and torch.compile on the same texts.

    python benchmarks/cpu_prediction.py --data SENTIMENT --out results/cpu-prediction.json

MiniLM learns rows of one domain by finetune+ema. Then 64 test texts, or one, are read by

- memgrow: `Learner.predict` with matrix products in float32, or in bfloat16 (the default where the processor has it);
- memgrow, nn.Linear: the same with torch's layers in place of `FastLinear`;
- sentence-transformers: `encode` and the head, float32;
- onnxruntime: the graph of `memgrow export --to onnx` in float32, or with int8 weights (`quantize_dynamic`), in
  memgrow's batches;
- torch.compile: memgrow in float32 with a compiled encoder, any shape.

Ways take turns within a round; a figure is the median of processor time, a ratio the median of the rounds' ratios to
sentence-transformers. Accuracy is that on the first test rows. Needs sentence-transformers and `memgrow[onnx]`.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

import encoder_rivals as rivals
from memgrow.data import Domain, Example
from memgrow.data.batches import collate, token_mask
from memgrow.data.corpora import open_corpus
from memgrow.data.disk import atomic_write, pack_json
from memgrow.learner import Learner
from memgrow.models import PretrainedEncoder
from memgrow.models.transformer import FastLinear
from memgrow.nn.device import multiplies_bfloat16
from memgrow.storage.export import GRAPH, INPUTS, OUTPUT, export_onnx
from memgrow.training.settings import FINE_TUNING
from recorded_command import recorded_command

RIVAL = "sentence-transformers"
Predict = Callable[[Sequence[Example]], Sequence[int]]


def with_precision(learner: Learner, precision: str) -> Learner:
    """The learner with a copy of its model that multiplies in another precision."""
    with TemporaryDirectory() as scratch:
        learner.save(Path(scratch) / "model")
        learner = Learner.load(Path(scratch) / "model", "cpu")
    encoder = learner.classifier().encoder
    encoder.settings = replace(encoder.settings, precision=precision)  # type: ignore[call-arg]
    return learner


def by_memgrow(learner: Learner) -> Predict:
    labels = list(learner.labels or ())
    return lambda rows: [labels.index(one.label) for one in learner.predict(rows)]


def by_graph(learner: Learner, path: Path) -> Predict:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    encoder = learner.classifier().encoder

    def predict(rows: Sequence[Example]) -> Sequence[int]:
        data = learner.encode(rows, labeled=False)
        found = np.zeros(len(data), np.int64)
        for indices in encoder.batches(data):
            batch = collate(data, indices, torch.device("cpu"))
            given = (batch.words.numpy(), token_mask(batch.words, batch.lengths).long().numpy())
            (probabilities,) = session.run([OUTPUT], dict(zip(INPUTS, given, strict=True)))
            found[indices] = probabilities.argmax(-1)
        answers: list[int] = found.tolist()
        return answers

    return predict


def ways_of(learner: Learner, folder: Path) -> dict[str, Predict]:
    single = with_precision(learner, "float32")
    ways: dict[str, Predict] = {}
    for precision in ("float32", *(["bfloat16"] if multiplies_bfloat16("cpu") else [])):
        plain = with_precision(learner, precision)
        for module in plain.classifier().encoder.modules():
            if isinstance(module, FastLinear):
                module.__class__ = torch.nn.Linear
        ways[f"memgrow, {precision}"] = by_memgrow(with_precision(learner, precision))
        ways[f"memgrow, {precision}, nn.Linear"] = by_memgrow(plain)
    encode = rivals.predict_with_sentence_transformers(learner)
    ways[RIVAL] = lambda rows: [label for label, _ in encode([one.text for one in rows])]
    export_onnx(single, folder / "onnx")
    graph = onnx.load(folder / "onnx" / GRAPH)
    del graph.graph.value_info[:]  # shapes that those of quantized weights contradict
    quantize_dynamic(graph, folder / "int8.onnx", weight_type=QuantType.QInt8)
    ways["onnxruntime, float32"] = by_graph(single, folder / "onnx" / GRAPH)
    ways["onnxruntime, int8"] = by_graph(single, folder / "int8.onnx")
    compiled = with_precision(learner, "float32")
    backbone = compiled.classifier().encoder
    assert isinstance(backbone, PretrainedEncoder)
    backbone.backbone = torch.compile(backbone.backbone, dynamic=True)  # type: ignore[assignment]
    ways["torch.compile, float32"] = by_memgrow(compiled)
    return ways


def times(ways: dict[str, Predict], rows: Sequence[Example], rounds: int) -> dict[str, Any]:
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, predict in ways.items():
            began = time.process_time()
            predict(rows)
            if turn:
                taken[name].append(time.process_time() - began)
    return {
        name: {
            "milliseconds": round(1e3 * median(found), 1),
            "times as fast as sentence-transformers": round(
                median(r / own for r, own in zip(taken[RIVAL], found, strict=True)), 2
            ),
        }
        for name, found in taken.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the sentiment corpus: memgrow data where sentiment")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", type=int, default=640, help="of training")
    parser.add_argument("--tested", type=int, default=1000, help="rows for the accuracy")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    domain = open_corpus(given.data).stream[0]
    train, validation, test = (part[:: max(1, len(part) // most)][:most] for part, most in (
        (domain.train, given.rows), (domain.validation, 100), (domain.test, given.tested)
    ))  # fmt: skip
    learner = Learner.create("finetune+ema", encoder="minilm", training=replace(FINE_TUNING, epochs=2), device="cpu")
    learner.adapt(Domain(domain.name, tuple(train), tuple(validation)))
    tested = [replace(one, label=None) for one in test]
    right = [(learner.labels or ()).index(str(one.label)) for one in test]
    found: dict[str, Any] = {}
    with TemporaryDirectory() as scratch:
        ways = ways_of(learner, Path(scratch))
        for name, texts, rounds in (("64 texts", tested[:64], given.rounds), ("1 text", tested[:1], 3 * given.rounds)):
            found[name] = times(ways, texts, rounds)
            print(name, pack_json(found[name]).decode(), flush=True)
        answers = {name: predict(tested) for name, predict in ways.items() if name != RIVAL}
    found["accuracy"] = {name: round(fmean(map(int.__eq__, own, right)), 4) for name, own in answers.items()}
    print(found["accuracy"])
    packages = {name: version(name) for name in ("torch", "transformers", RIVAL, "onnxruntime")}
    about = {"command": recorded_command(__file__), "threads": 1, "packages": packages, "tested": len(tested)}
    if given.out:
        atomic_write(given.out, pack_json({**about, **found}))


if __name__ == "__main__":
    main()
