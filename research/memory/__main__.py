"""What a domain memory gains: `python -m research.memory STREAM [--data PATH]`."""

import argparse
import gzip
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from memgrow import Learner
from memgrow.data import Domain, Stream, synthetic_stream
from memgrow.data.batches import Encoded
from memgrow.evaluation.demo import MODEL, TRAINING
from memgrow.models import Classifier
from memgrow.models.domain_memory import DomainMemory

RESULTS = Path(__file__).parents[2] / "results" / "memory"
SENTIMENT = {
    "1": ("films", "products", "editorials", "tweets"),
    "2": ("tweets", "editorials", "products", "films"),
    "3": ("editorials", "films", "tweets", "products"),
}
REVIEWS = ("books", "electronics", "music", "software", "toys_games")
LSTM = "-lstm"  # ends the name of a stream that a BiLSTM learns
ROWS, PER_INTENT, TEST = 400, 20, 400
T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 9: 2.306}  # Student's t by the number of values


def streams(name: str, data: Path | None) -> Iterator[tuple[str, int, Stream]]:
    """The name of each order, a seed and its stream."""
    name = name.removesuffix(LSTM)
    if name == "demo":
        yield from (("1", seed, synthetic_stream(seed=seed)) for seed in range(10, 15))
        return
    assert data is not None, "--data is missing"
    for seed in range(3):
        if name == "intents":
            yield "1", seed, Stream(intents(data, seed))
        elif name == "reviews":
            yield "1", seed, Stream([review(data, domain, seed) for domain in REVIEWS])
        else:
            for order, domains in SENTIMENT.items():
                yield order, seed, Stream([sentiment(data, domain, seed) for domain in domains])


def sentiment(folder: Path, name: str, seed: int) -> Domain:
    rows = shuffled([row for path in sorted(folder.glob(f"{name}*.jsonl")) for row in read(path)], 0)
    return Domain.from_rows(name, rows=shuffled(rows[TEST:], seed)[:ROWS], test=rows[:TEST])


def review(folder: Path, name: str, seed: int) -> Domain:
    rows = shuffled(read(folder / f"{name}_train.jsonl.gz"), seed)[:ROWS]
    return Domain.from_rows(name, rows=rows, test=read(folder / f"{name}_test.jsonl.gz"))


def intents(path: Path, seed: int) -> list[Domain]:
    """Two of the ten domains at a time, in alphabetical order."""
    rows, found = read(path), []
    names = sorted({row["domain"] for row in rows})
    for first in range(0, len(names), 2):
        chosen = [row for row in rows if row["domain"] in names[first : first + 2]]
        by_label: dict[str, list[dict[str, str]]] = {}
        for row in shuffled([row for row in chosen if row["split"] == "train"], seed):
            by_label.setdefault(row["label"], []).append(row)
        train = [pick(row) for label in sorted(by_label) for row in by_label[label][:PER_INTENT]]
        test = [pick(row) for row in chosen if row["split"] == "test"]
        found.append(Domain.from_rows("+".join(names[first : first + 2]), rows=shuffled(train, seed), test=test))
    return found


def pick(row: dict[str, str]) -> dict[str, str]:
    return {"text": row["text"], "label": row["label"]}


def read(path: Path) -> list[dict[str, str]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [json.loads(line) for line in text.splitlines()]


def shuffled(rows: Sequence[Any], seed: int) -> list[Any]:
    return random.Random(seed).sample(list(rows), len(rows))


def method_for(name: str) -> str:
    return "finetune+vocab" if name == "demo" or name.endswith(LSTM) else "finetune+ema"


def create(method: str, name: str, seed: int) -> Learner:
    if name == "demo":
        return Learner.create(method, model=MODEL, training=TRAINING, seed=seed, device="cpu")
    encoder = None if name.endswith(LSTM) else "minilm"
    return Learner.create(method, encoder=encoder, seed=seed, device="cpu")


def accuracies(learner: Learner, stream: Stream) -> dict[str, Any]:
    """Average accuracy at the end by each reading, in percent, and how often the router is right."""
    model, found = learner.classifier(), []
    for domain in stream:
        data = learner.split(domain, "test")
        labels = [label == guess for label, guess in zip(data.labels, model.plain_logits(data).argmax(-1), strict=True)]
        shares = readings(model, data)
        told = model.logits(data, domain.name).argmax(-1).tolist()
        routed = always(model).logits(model, data).argmax(-1).tolist()
        conflict = model.logits(data).argmax(-1).tolist()
        entry = model.memory.scores(data).argmax(-1).tolist() if model.memory is not None else []
        right = [model.memory.names[one] == domain.name for one in entry] if model.memory is not None else []
        found.append(
            {
                "last": 100 * fmean(map(float, labels)),
                "routed": 100 * fmean(a == b for a, b in zip(routed, data.labels, strict=True)),
                "conflict": 100 * fmean(a == b for a, b in zip(conflict, data.labels, strict=True)),
                "told": 100 * fmean(a == b for a, b in zip(told, data.labels, strict=True)),
                "router": 100 * fmean(right),
                **{name: 100 * fmean((guess == data.labels).tolist()) for name, guess in shares.items()},
            }
        )
    return {key: round(fmean(one[key] for one in found), 2) for key in found[0]}


def always(model: Classifier) -> DomainMemory:
    """The memory, each of whose entries answers for its domain."""
    assert model.memory is not None
    return DomainMemory(list(model.memory.entries()), model.memory.base, "always")


def readings(model: Classifier, data: Encoded) -> dict[str, Any]:
    """Labels by mixtures of the routed entry with the last weights: half each, or the router's probability."""
    assert model.memory is not None
    routed, last = always(model).logits(model, data).softmax(-1), model.plain_logits(data).softmax(-1)
    sure = model.memory.scores(data).amax(-1, keepdim=True).exp().float()
    mixed = {"half": (routed + last) / 2, "confidence": sure * routed + (1 - sure) * last}
    return {name: one.argmax(-1).numpy() for name, one in mixed.items()}


def learn(learner: Learner, domain: Domain, watch: list[Domain]) -> list[float | None]:
    """Learn a domain; accuracy of the weights on its validation data before and after, and of the majority class."""

    def accuracy() -> float:
        data = learner.split(domain, "validation")
        return float((learner.classifier().plain_logits(data).argmax(-1) == torch.tensor(data.labels)).double().mean())

    labels = [example.label for example in domain.validation]
    before = accuracy() if learner.model is not None and set(labels) <= set(learner.labels or ()) else None
    learner.adapt(domain, watch=watch, threads=1)
    majority = max(labels.count(label) for label in set(labels)) / len(labels)
    return [None if one is None else round(one, 4) for one in (before, accuracy(), majority)]


def run(name: str, data: Path | None) -> None:
    """Run a stream with all its seeds and orders, and write the figures."""
    runs, ceilings = [], {}
    for order, seed, stream in streams(name, data):
        began = time.monotonic()
        learner = create(
            "finetune+vocab+memory" if name == "demo" or name.endswith(LSTM) else "finetune+ema+memory", name, seed
        )
        known = [learn(learner, domain, list(stream)) for domain in stream]
        forgotten = learner.history.matrix.forgetting()
        figures = accuracies(learner, stream)
        if seed not in ceilings:
            together = create("multi-task", name, seed)
            together.learn(stream)
            ceilings[seed] = round(100 * fmean(together.evaluate(stream).values()), 2)
        figures["validation"] = known  # before and after each domain, and the majority class
        figures["carried"] = [stage.note["carried"] for stage in learner.history.stages]
        figures |= {"multi-task": ceilings[seed], "forgetting": round(100 * (forgotten or 0.0), 2)}
        runs.append({"order": order, "seed": seed, **figures, "seconds": round(time.monotonic() - began)})
        print(runs[-1], flush=True)
        write(name, runs)


def write(name: str, runs: list[dict[str, Any]]) -> None:
    keys = ("last", "routed", "conflict", "half", "confidence", "told", "multi-task", "router", "forgetting")
    summary: dict[str, Any] = {key: round(fmean(one[key] for one in runs), 1) for key in keys}
    pairs = [(one, other) for one in ("routed", "conflict") for other in ("last", "multi-task")]
    for reading, other in pairs:
        gaps = [one[reading] - one[other] for one in runs]
        half = T95[len(gaps)] * stdev(gaps) / len(gaps) ** 0.5 if len(gaps) in T95 else None
        interval = None if half is None else [round(fmean(gaps) - half, 1), round(fmean(gaps) + half, 1)]
        summary[f"{reading} minus {other}"] = {"mean": round(fmean(gaps), 1), "interval": interval}
    RESULTS.mkdir(parents=True, exist_ok=True)
    value = {"command": f"python -m research.memory {name}", "stream": name, "summary": summary, "runs": runs}
    (RESULTS / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.memory", description=__doc__)
    parser.add_argument("stream", choices=("demo", "sentiment", "intents", "reviews", "sentiment-lstm", "reviews-lstm"))
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    run(given.stream, given.data)


if __name__ == "__main__":
    main()
