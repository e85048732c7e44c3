"""Which default settings keep up with a plain loop: `python -m research.defaults --data DATA --out FOLDER`.

One factor at a time. Each run writes one .json file with the test accuracies after every stage.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.plain_loop import plain_loop
from memgrow import Learner
from memgrow.data import Domain, Example, Stream
from memgrow.models import PretrainedSettings
from research.common.pool import Job, file_of, run_jobs
from research.memory.streams import pick, read, shuffled

REVIEWS = ("apparel", "dvd", "kitchen_housewares", "health_personal_care")
CHECK = ("books", "electronics", "music", "software")
LAST = ("MR", "baby", "imdb", "sports_outdoors")  # unlike each other
SENTIMENT = ("films", "products", "editorials", "tweets")
STREAMS = {"reviews": REVIEWS, "sentiment": SENTIMENT, "check": CHECK, "mixed": LAST}
VALIDATION = 0.1


def domains_of(data: Path, stream: str, rows: int, seed: int) -> list[Domain]:
    """So many rows of each domain, a tenth of them for validation."""
    domains = []
    for name in STREAMS[stream]:
        if stream == "sentiment":
            found = read(data / "sentiment" / f"{name}.jsonl")
            train = [pick(row) for row in found if row["split"] != "test"]
            test = [pick(row) for row in found if row["split"] == "test"]
        else:
            train, test = (read(data / "reviews" / f"{name}_{part}.jsonl.gz") for part in ("train", "test"))
        examples = [Example(row["text"], label=row["label"]) for row in shuffled(train, seed)[:rows]]
        held = round(VALIDATION * rows)
        answers = [Example(row["text"], label=row["label"]) for row in test]
        domains.append(Domain(name, examples[held:], examples[:held], answers))
    return domains


def everything(domains: list[Domain]) -> list[Domain]:
    """The validation rows are trained on as well."""
    return [Domain(one.name, [*one.train, *one.validation], one.validation, one.test) for one in domains]


def memgrow(
    domains: list[Domain], seed: int, given: argparse.Namespace, method: str, model: dict[str, Any], **training: Any
) -> list[list[float]]:
    first = training.pop("first", None)
    settings = PretrainedSettings(encoder=given.encoder, **model)
    learner = Learner.create(
        method, encoder=given.encoder, model=settings if model else None, seed=seed, device=given.device
    )
    matrix = []
    for number, domain in enumerate(domains):
        now = dict(training)
        if first is not None:
            now["epochs"] = first[min(number, 1)]
        learner.training = replace(learner.training, **now)
        learner.adapt(domain, threads=1)
        matrix.append([round(100 * one, 2) for one in learner.evaluate(domains).values()])
    return matrix


Variant = Callable[[list[Domain], int, argparse.Namespace], list[list[float]]]


def variant(
    method: str = "finetune+ema", all_rows: bool = False, model: dict[str, Any] | None = None, **training: Any
) -> Variant:
    def run(domains: list[Domain], seed: int, given: argparse.Namespace) -> list[list[float]]:
        return memgrow(everything(domains) if all_rows else domains, seed, given, method, model or {}, **training)

    return run


LAST_EPOCH: dict[str, Any] = {"select": "last"}
VARIANTS: dict[str, Variant] = {
    "default": variant(),
    "plain": lambda domains, seed, given: plain_loop(domains, given.encoder, seed, given.device, False),
    "plain, held out": lambda domains, seed, given: plain_loop(domains, given.encoder, seed, given.device, True),
    "no average": variant("finetune"),
    "last epoch": variant(**LAST_EPOCH),
    "last epoch, no average": variant("finetune", **LAST_EPOCH),
    "last epoch, all rows": variant(all_rows=True, **LAST_EPOCH),
    "last epoch, all rows, no average": variant("finetune", True, **LAST_EPOCH),
    "last epoch, all rows, no average, 10 and 5 epochs": variant("finetune", True, first=(10, 5), **LAST_EPOCH),
    "last epoch, all rows, no average, head at 5e-5": variant("finetune", True, new_rate=5e-5, **LAST_EPOCH),
    "last epoch, all rows, no average, warm-up 15": variant("finetune", True, warm_up=15, **LAST_EPOCH),
    "last epoch, all rows, no average, first token": variant("finetune", True, {"pooling": "first"}, **LAST_EPOCH),
    "last epoch, all rows, no average, perceptron": variant("finetune", True, {"perceptron": 384}, **LAST_EPOCH),
    "last epoch, all rows, 10 and 5 epochs": variant(all_rows=True, first=(10, 5), **LAST_EPOCH),
    "last epoch, all rows, 10 and 10 epochs": variant(all_rows=True, first=(10, 10), **LAST_EPOCH),
    "multi-task": lambda domains, seed, given: _joint(domains, seed, given),
}


def _joint(domains: list[Domain], seed: int, given: argparse.Namespace) -> list[list[float]]:
    learner = Learner.create("multi-task", encoder=given.encoder, seed=seed, device=given.device)
    learner.learn(Stream(domains), threads=1)
    return [[round(100 * one, 2) for one in learner.evaluate(domains).values()]]


def jobs() -> Iterator[Job]:
    for seed in range(5):
        for rows in (500, 1500):
            for stream in ("reviews", "sentiment"):
                names = list(VARIANTS)
                yield from ((stream, rows, name, seed) for name in names if rows == 500 or "10" in name or seed < 3)
    for seed in range(5):
        for rows in (500, 1500):
            for stream in ("check", "mixed"):
                yield from ((stream, rows, name, seed) for name in ("default", "plain", "last epoch, all rows"))


def do(job: Job, given: argparse.Namespace) -> None:
    stream, rows, name, seed = job
    began = time.monotonic()
    random.seed(seed)
    matrix = VARIANTS[name](domains_of(given.data, stream, rows, seed), seed, given)
    end = matrix[-1]
    average = round(sum(end) / len(end), 2)
    record = {"stream": stream, "rows": rows, "variant": name, "seed": seed, "average": average, "matrix": matrix}
    record["seconds"] = round(time.monotonic() - began, 1)
    file_of(given.out, job, ".json").write_text(json.dumps(record) + "\n", encoding="utf-8")
    print(*job, average, record["seconds"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.defaults", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no run after so many")
    parser.add_argument("--only", default="", help="runs whose name holds this text")
    given = parser.parse_args()
    chosen = [job for job in jobs() if given.only in ".".join(map(str, job))]
    run_jobs(do, chosen, given.workers, given.seconds, given)


if __name__ == "__main__":
    main()
