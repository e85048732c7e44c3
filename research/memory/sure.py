"""A mean of newest model and entry for unsure texts: `python -m research.memory.sure run|choose`.

    python -m research.memory.sure run sentiment-1 0 --data DATA     one stream and one seed
    python -m research.memory.sure choose                            the rule, from the runs in results/memory/sure

DATA has the folders sentiment and reviews. With `--model FOLDER` a model is read that `memgrow adapt` has made.
"""

import argparse
import json
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from memgrow import Learner
from memgrow.data import Domain, Stream
from memgrow.training.settings import defaults_for
from research.common.statistics import paired_over_seeds
from research.memory import streams
from research.memory.__main__ import RESULTS, always

FOLDER = RESULTS / "sure"
SURE = (0.9, 0.95, 0.98, 0.99, 0.995)
ALLOWED = 0.1  # points of validation accuracy below the mean for all texts
TOGETHER = "multi-task"
REVIEWS, ROWS, WORDS = "five-reviews", 400, 128


def stream_of(name: str, data: Path, seed: int) -> Stream:
    if name == REVIEWS:
        return streams.reviews(data, streams.FIVE_REVIEWS, seed, ROWS)
    return streams.sentiment(data, name[-1])


def create(name: str, seed: int, method: str | None) -> Learner:
    training = defaults_for("minilm").training
    training = replace(training, max_words=WORDS) if name == REVIEWS else training
    return Learner.create(method, encoder="minilm", training=training, seed=seed, device="cpu")


def counts(learner: Learner, domain: Domain, split: str) -> dict[str, Any]:
    """How many texts of a split each reading answers rightly, and how many the newest model answers alone."""
    model, data = learner.classifier(), learner.split(domain, split)
    memory, labels, rows = model.memory, torch.tensor(data.labels), torch.arange(len(data))
    assert memory is not None
    newest, number = model.plain_logits(data).softmax(-1), len(memory) - 1
    chosen, routed = memory.scores(data).argmax(-1), always(model).logits(model, data).softmax(-1)
    clash = torch.tensor([number not in readers for readers in memory.readers])
    mean = torch.where((clash[chosen] | (chosen == number))[:, None], routed, newest + routed)
    conflict = torch.where(clash[chosen][:, None], routed, newest)
    answers = {"last": newest, "routed": routed, "conflict": conflict, "mean": mean}
    answers["told"] = model.logits(data, domain.name)
    alone = {}
    for limit in SURE:
        sure = (newest.amax(-1) >= limit) & ~clash.any()
        answers[str(limit)], alone[str(limit)] = torch.where(sure[:, None], newest, mean), int(sure.sum())
    right = {name: int((one[rows].argmax(-1) == labels).sum()) for name, one in answers.items()}
    routed_right = int((chosen == memory.names.index(domain.name)).sum())
    return {"texts": len(data), "right": right, "alone": alone, "router": routed_right}


def run(name: str, seed: int, data: Path, model: Path | None, method: str | None) -> None:
    began, stream = time.monotonic(), stream_of(name, data, seed)
    value: dict[str, Any] = {"command": f"python -m research.memory.sure run {name} {seed}", "stream": name}
    value |= {"seed": seed, "domains": list(stream.names)}
    if method == TOGETHER:
        learner = create(name, seed, method)
        learner.learn(stream)
        value[TOGETHER] = [round(100 * score, 2) for score in learner.evaluate(stream).values()]
        name = f"{name}.{TOGETHER}"
    else:
        if model is None:
            learner = create(name, seed, method)
            learner.learn(stream)
        else:
            learner = Learner.load(model, "cpu")
        value["carried"] = [stage.note.get("carried") for stage in learner.history.stages]
        for split in ("validation", "test"):
            value[split] = [counts(learner, domain, split) for domain in stream]
    value["seconds"] = round(time.monotonic() - began)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.{seed}.json").write_text(json.dumps(value) + "\n", encoding="utf-8")
    print(f"{name} {seed}", value.get(TOGETHER) or summary(value, "test"), flush=True)


def summary(one: dict[str, Any], split: str) -> dict[str, float]:
    """The average over domains of each reading's accuracy, in percent."""
    return {name: fmean(100 * d["right"][name] / d["texts"] for d in one[split]) for name in one[split][0]["right"]}


def alone(one: dict[str, Any], limit: str) -> float:
    """The share of test texts that the newest model answers alone."""
    return float(sum(d["alone"][limit] for d in one["test"]) / sum(d["texts"] for d in one["test"]))


def choose() -> None:
    """Apply the rule of the page to the runs, and write the figures."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    together: dict[int, float] = {}
    for path in sorted(FOLDER.glob("*.json")):
        one = json.loads(path.read_text(encoding="utf-8"))
        if TOGETHER in one:
            together[one["seed"]] = fmean(one[TOGETHER])
        else:
            groups[one["stream"]].append(one)
    sentiment = {name: runs for name, runs in groups.items() if name != REVIEWS}
    first = [summary(one, "validation") for runs in sentiment.values() for one in runs if one["seed"] == 0]
    validation = {name: round(fmean(one[name] for one in first), 2) for name in first[0]}
    fit = [limit for limit in SURE if validation[str(limit)] >= validation["mean"] - ALLOWED]
    chosen = str(min(fit, default=max(SURE)))
    found: dict[str, Any] = {}
    for name, runs in groups.items():
        figures = [summary(one, "test") for one in runs]
        row: dict[str, Any] = {"seeds": [one["seed"] for one in runs]}
        row |= {key: round(fmean(one[key] for one in figures), 2) for key in figures[0]}
        row["alone"] = {limit: round(fmean(alone(one, limit) for one in runs), 3) for limit in map(str, SURE)}
        row["less newest"] = difference([one[chosen] for one in figures], [one["last"] for one in figures])
        found[name] = row
    ends = [summary(one, "test")[chosen] for runs in sentiment.values() for one in runs]
    third = json.loads((RESULTS / "readings.json").read_text(encoding="utf-8"))["streams"]["sentiment-1"]
    ceiling = fmean(together.values()) if together else third[TOGETHER]["last"]
    value = {"command": "python -m research.memory.sure choose", "chosen": float(chosen), "validation": validation}
    value[TOGETHER] = {"seeds": sorted(together) or third[TOGETHER]["seeds"], "accuracy": round(ceiling, 2)}
    value["sentiment"] = {"runs": len(ends), "accuracy": round(fmean(ends), 2)}
    value["less multi-task"] = difference(ends, [ceiling] * len(ends))
    (RESULTS / "sure.json").write_text(json.dumps({**value, "streams": found}, indent=1) + "\n", "utf-8")
    print(json.dumps({**value, "streams": found}, indent=1))


def difference(first: list[float], second: list[float]) -> dict[str, float | None]:
    if len(first) < 2:
        return {"mean": None, "low": None, "high": None}
    paired = paired_over_seeds(first, second)
    numbers = {"mean": paired.difference, "low": paired.low, "high": paired.high}
    return {name: None if one is None else round(one, 2) for name, one in numbers.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.memory.sure", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("stream", help="sentiment-1, sentiment-2, sentiment-3 or five-reviews")
    one.add_argument("seed", type=int)
    one.add_argument("--data", type=Path, default=Path("data"))
    one.add_argument("--model", type=Path, help="read this model")
    one.add_argument("--method", help=f"the default, or {TOGETHER}")
    commands.add_parser("choose")
    given = parser.parse_args()
    if given.command == "run":
        run(given.stream, given.seed, given.data, given.model, given.method)
    else:
        choose()


if __name__ == "__main__":
    main()
