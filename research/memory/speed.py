"""What a domain memory costs: `python -m research.memory.speed CLINC150.jsonl.gz`, MiniLM on the CPU.

The entries beyond the second are copies, with keys moved apart, so that texts are spread over all of them.
"""

import json
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from memgrow import Learner, TrainingSettings
from memgrow.data import Stream
from memgrow.models.domain_memory import DomainMemory
from memgrow.models.router import KEY
from research.memory.__main__ import RESULTS, intents

TEXTS, ROUNDS, COUNTS = 64, 7, (2, 10, 100)


def seconds(call: Any) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return median(taken)


def main() -> None:
    domains = intents(Path(sys.argv[1]), 0)[:2]
    training = TrainingSettings(rate=5e-5, new_rate=1e-3, epochs=1, max_words=256)
    learner = Learner.create("finetune+memory", encoder="minilm", training=training, device="cpu")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        learner.learn(Stream(domains), folder=Path(place) / "model")
        version = Path(place) / "model" / "versions" / "0002"
        found["megabytes"] = {file.name: round(file.stat().st_size / 1e6, 2) for file in version.glob("*.safetensors")}
        began = time.perf_counter()
        Learner.load(Path(place) / "model", "cpu")
        found["seconds to load"] = round(time.perf_counter() - began, 2)
    model = learner.classifier()
    memory = model.memory
    assert memory is not None
    first, last = memory.entries()
    found["megabytes of an entry"] = round(sum(one.nbytes for one in first.tensors.values()) / 1e6, 2)
    rows = [one for domain in domains for one in domain.test]
    texts = random.Random(0).sample(rows, TEXTS)
    data = learner.encode(texts)
    plain = seconds(lambda: model.plain_logits(data))
    found["milliseconds, plain"] = round(1e3 * plain, 1)
    found["times plain, router alone"] = round(seconds(lambda: memory.scores(data)) / plain, 2)
    for count in COUNTS:
        torch.manual_seed(0)
        copies = [
            replace(first, name=str(number), tensors={**first.tensors, KEY: first.tensors[KEY] + torch.randn(1) * 1e-3})
            for number in range(count - 1)
        ]
        model.memory = DomainMemory([*copies, last], memory.base, "always")
        used = len(set(model.memory.scores(data).argmax(-1).tolist()))
        model.logits(data)  # weights of the entries are built once
        ratio = seconds(lambda: model.logits(data)) / plain
        found[f"times plain, {count} entries"] = {"entries read": used, "times": round(ratio, 2)}
    value = {"command": "python -m research.memory.speed CLINC150", "texts": TEXTS, "threads": torch.get_num_threads()}
    (RESULTS / "speed.json").write_text(json.dumps({**value, **found}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
