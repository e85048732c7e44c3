"""Which default settings keep up with a plain loop: `python -m research.defaults --data DATA --out FOLDER`.

`--check`, `--memory` and `--first` make the later runs. One factor at a time.
Each run writes one .json file with the test accuracies after every stage.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.plain_loop import plain_loop
from memgrow import Learner
from memgrow.data import Domain, Example, Stream
from memgrow.models import PretrainedSettings
from memgrow.training import settings as training_settings
from research.common.pool import Job, file_of, run_jobs
from research.memory.streams import pick, read, shuffled, stream_of

REVIEWS = ("apparel", "dvd", "kitchen_housewares", "health_personal_care")
CHECK = ("books", "electronics", "music", "software")
LAST = ("MR", "baby", "imdb", "sports_outdoors")  # unlike each other
SENTIMENT = ("films", "products", "editorials", "tweets")
ALONE = ("films", "products", "tweets")  # first models
STREAMS: dict[str, tuple[str, ...]] = {"reviews": REVIEWS, "sentiment": SENTIMENT, "check": CHECK, "mixed": LAST}
STREAMS |= {name: (name,) for name in ALONE}
VALIDATION = 0.1
FIRST_STEPS, AUTO_STEPS = training_settings.FIRST_STEPS, training_settings.AUTO_STEPS


def domains_of(data: Path, stream: str, rows: int, seed: int) -> list[Domain]:
    """So many rows of each domain, a tenth of them for validation."""
    domains = []
    for name in STREAMS[stream]:
        if name in SENTIMENT:
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
    training = {"select": "last", **training}
    changed = PretrainedSettings(encoder=given.encoder, **model)
    learner = Learner.create(
        method, encoder=given.encoder, model=changed if model else None, seed=seed, device=given.device
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


FIRST: dict[str, Any] = {"select": "best"}  # as the settings were before this study
NO_MEAN = "finetune"
VARIANTS: dict[str, Variant] = {
    "old default": variant(**FIRST),
    "plain": lambda domains, seed, given: plain_loop(domains, given.encoder, seed, given.device, False),
    "plain, held out": lambda domains, seed, given: plain_loop(domains, given.encoder, seed, given.device, True),
    "no average": variant(NO_MEAN, **FIRST),
    "last epoch": variant(),
    "last epoch, no average": variant(NO_MEAN),
    "last epoch, all rows": variant(all_rows=True),
    "last epoch, all rows, no average": variant(NO_MEAN, True),
    "last epoch, all rows, no average, 10 and 5 epochs": variant(NO_MEAN, True, first=(10, 5)),
    "last epoch, all rows, no average, head at 5e-5": variant(NO_MEAN, True, new_rate=5e-5),
    "last epoch, all rows, no average, warm-up 15": variant(NO_MEAN, True, warm_up=15),
    "last epoch, all rows, no average, first token": variant(NO_MEAN, True, {"pooling": "first"}),
    "last epoch, all rows, no average, perceptron": variant(NO_MEAN, True, {"perceptron": 384}),
    "last epoch, all rows, 10 and 5 epochs": variant(all_rows=True, first=(10, 5)),
    "last epoch, all rows, 10 and 10 epochs": variant(all_rows=True, first=(10, 10)),
    "multi-task": lambda domains, seed, given: _joint(domains, seed, given),
    # The check: `default` takes 10 epochs for a first domain of up to 500 steps.
    "default": variant(),
    "default, all rows": variant(all_rows=True),
    "default, domain memory": variant("finetune+ema+memory"),
    "default, 100 steps": variant(),  # of a first domain with few rows, not 150
}
FEWER_EPOCHS = tuple(name for name in VARIANTS if name.startswith("default"))  # all others train longer, as before


def _joint(domains: list[Domain], seed: int, given: argparse.Namespace) -> list[list[float]]:
    learner = Learner.create("multi-task", encoder=given.encoder, seed=seed, device=given.device)
    learner.learn(Stream(domains), threads=1)
    return [[round(100 * one, 2) for one in learner.evaluate(domains).values()]]


def jobs() -> Iterator[Job]:
    for seed in range(5):
        for rows in (500, 1500):
            for stream in ("reviews", "sentiment"):
                names = [name for name in VARIANTS if not name.startswith("default")]
                yield from ((stream, rows, name, seed) for name in names if rows == 500 or seed < 3)


def checks() -> Iterator[Job]:
    """The second call: streams that had no part in the choice, and the whole sentiment stream."""
    yield from (("sentiment-1", "whole", name, seed) for seed in range(3) for name in ("default", "old default"))
    for rows, seeds in ((500, (0, 1, 2)), (1500, (0, 1)), (500, (3, 4)), (1500, (2,))):
        names = ("default", "old default", "plain", *(["default, all rows"] if rows == 500 else []))
        yield from ((stream, rows, name, seed) for seed in seeds for stream in ("check", "mixed") for name in names)


def memory_checks() -> Iterator[Job]:
    """The third call: the same streams, now that the default reads the domain memory."""
    for seed in range(5):
        for rows in (500, 1500):
            names = ("default", "default, domain memory", "plain")
            yield from ((stream, rows, name, seed) for stream in ("check", "mixed") for name in names)


def first_models() -> Iterator[Job]:
    """The fourth call: fewer steps for a first model."""
    names = ("default", "default, 100 steps")
    yield from ((stream, 300, name, seed) for seed in range(5) for stream in ALONE for name in names)


def do(job: Job, given: argparse.Namespace) -> None:
    stream, rows, name, seed = job
    began = time.monotonic()
    if name not in FEWER_EPOCHS:
        training_settings.FIRST_STEPS = 0
    training_settings.AUTO_STEPS = 100 if name.endswith("100 steps") else AUTO_STEPS
    found = list(stream_of(stream, given.data, seed)) if rows == "whole" else domains_of(given.data, stream, rows, seed)
    matrix = VARIANTS[name](found, seed, given)
    training_settings.FIRST_STEPS = FIRST_STEPS
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
    parser.add_argument("--check", action="store_true", help="the runs that check what was chosen")
    parser.add_argument("--memory", action="store_true", help="the runs of the third rule")
    parser.add_argument("--first", action="store_true", help="the runs of first models with fewer steps")
    parser.add_argument("--only", default="", help="runs whose name holds this text")
    given = parser.parse_args()
    asked = first_models() if given.first else memory_checks() if given.memory else checks() if given.check else jobs()
    chosen = [job for job in asked if given.only in ".".join(map(str, job))]
    run_jobs(do, chosen, given.workers, given.seconds, given)


if __name__ == "__main__":
    main()
