"""Choose when an entry answers, when both, when the newest: `python -m research.memory.tiers run|choose`.

    python -m research.memory.tiers run sentiment-1 0 --data DATA    one stream and one seed
    python -m research.memory.tiers choose                           every rule, from the runs in results/memory/tiers

DATA has the folders sentiment, reviews, intents and multinli. A run keeps, for each domain, the validation accuracy of
the old model, of the new one and of the majority class; and for each domain's test texts that the router gives to an
entry, how many the newest weights, the entry, and the mean of both answer rightly. Any rule follows from these.
"""

import argparse
import json
import time
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from memgrow import Learner
from memgrow.data import Domain, Stream, synthetic_stream
from memgrow.evaluation.demo import MODEL, TRAINING
from memgrow.training.settings import defaults_for
from research.common.statistics import paired_over_seeds
from research.memory import streams
from research.memory.__main__ import LSTM, RESULTS, learn

FOLDER = RESULTS / "tiers"
TEST, WORDS = 300, 32  # test rows of a domain, and word pieces of a text
CHOOSE, CHECK = ("demo", "six-reviews", "mixed-reviews", "banking"), ("sentiment", "five-reviews", "genres", "intents")
LOW, HIGH, ERRORS = (0.5, 0.6, 0.7, 0.8), (0.0, 0.8, 0.85, 0.9, 0.95, 9.0), (0.0, 1.0)
TIE = 0.3

Rule = tuple[float, float, float]  # low, high, standard errors


def stream_of(name: str, data: Path, seed: int) -> Stream:
    """A stream with fewer rows than `streams.STREAMS` has."""
    name, rows = name.removesuffix(LSTM), 400
    if name == "demo":
        return synthetic_stream(seed=seed)
    if name.startswith("sentiment"):
        whole = streams.sentiment(data, name[-1])
        cut = [replace(one, train=tuple(streams.shuffled(one.train, seed)[:rows])) for one in whole]
    elif name == "banking":
        cut = list(streams.banking(data, seed, 20))
    elif name == "intents":
        cut = list(streams.intents(data, 2, seed, 20))
    elif name == "genres":
        cut = list(streams.genres(data, seed, 400))
    else:
        named = {"six": streams.SIX_REVIEWS, "mixed": streams.MIXED_REVIEWS, "five": streams.FIVE_REVIEWS}
        cut = list(streams.reviews(data, named.get(name.split("-")[0], streams.FIVE_REVIEWS), seed, rows))
    return Stream(replace(one, test=tuple(streams.shuffled(one.test, 0)[:TEST])) for one in cut)


def create(name: str, seed: int, method: str | None = None) -> Learner:
    if name == "demo":
        return Learner.create(
            method or "finetune+vocab+memory", model=MODEL, training=TRAINING, seed=seed, device="cpu"
        )
    if name.endswith(LSTM):
        return Learner.create(method or "finetune+vocab+memory", seed=seed, device="cpu")
    training = replace(defaults_for("minilm").training, max_words=WORDS)
    return Learner.create(method, encoder="minilm", training=training, seed=seed, device="cpu")


def counts(learner: Learner, domain: Domain) -> dict[str, Any]:
    """For each entry that texts of a domain are given to: their number, and how many each reading answers rightly."""
    model = learner.classifier()
    memory, data = model.memory, learner.split(domain, "test")
    assert memory is not None
    labels, chosen = torch.tensor(data.labels), memory.scores(data).argmax(-1)
    newest = model.plain_logits(data)
    found: dict[str, Any] = {}
    for number in sorted(set(chosen.tolist())):
        rows = (chosen == number).nonzero().flatten()
        last = newest[rows].softmax(-1)
        entry = memory.logits(model, data.some(rows.tolist()), memory.names[number]).softmax(-1)
        answers = {"last": last, "entry": entry, "mean": last + entry}
        right = {name: one.argmax(-1) == labels[rows] for name, one in answers.items()}
        patterns = Counter("".join(map(str, one)) for one in torch.stack([*right.values()], 1).int().tolist())
        found[str(number)] = {
            "texts": len(rows),
            **{name: int(one.sum()) for name, one in right.items()},
            "patterns": dict(sorted(patterns.items())),  # of texts: last, entry, mean right
        }
    told = model.logits(data, domain.name).argmax(-1)
    return {"texts": len(data), "told": int((told == labels).sum()), "entries": found}


def run(name: str, seed: int, data: Path) -> None:
    began, stream = time.monotonic(), stream_of(name, data, seed)
    value: dict[str, Any] = {"command": f"python -m research.memory.tiers run {name} {seed}", "stream": name}
    value |= {"seed": seed, "domains": list(stream.names), "rows": [len(one.validation) for one in stream]}
    learner = create(name, seed)
    value["validation"] = [learn(learner, domain, []) for domain in stream]  # old model, new model, majority class
    value["labels"] = [sorted(one.labels) for one in stream]
    value["counts"] = [counts(learner, domain) for domain in stream]
    if name == "demo" or name == "sentiment-1":
        together = create(name, seed, "multi-task")
        together.learn(stream)
        value["multi-task"] = [round(100 * score, 2) for score in together.evaluate(stream).values()]
    value["seconds"] = round(time.monotonic() - began)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.{seed}.json").write_text(json.dumps(value) + "\n", encoding="utf-8")
    print({**summary(value), "carried": carried(value, 0.0), "seconds": value["seconds"]}, flush=True)


# Rules


def carried(one: dict[str, Any], errors: float) -> list[float]:
    """For each entry, the least share of a later domain that its model knew already, plus so many standard errors."""
    shares = []
    for rows, (before, after, majority) in zip(one["rows"], one["validation"], strict=True):
        gained = after - majority
        if before is None:
            shares.append(0.0)
        elif gained <= 0:
            shares.append(1.0)
        else:
            shares.append((before - majority + errors * (before * (1 - before) / rows) ** 0.5) / gained)
    return [min(shares[number + 1 :], default=1.0) for number in range(len(shares))]


def reading_of(one: dict[str, Any], rule: Rule, number: int) -> str:
    """What answers the texts of an entry."""
    low, high, errors = rule
    least, own = carried(one, errors)[number], set(one["labels"][number])
    if number == len(one["labels"]) - 1:
        return "last"
    if not own <= set(one["labels"][-1]) or least < low:
        return "entry"
    return "mean" if least < high else "last"


def gain(one: dict[str, Any], rule: Rule) -> tuple[float, float, float]:
    """Average accuracy of a rule, how much that is above the newest model, and the variance of this over test texts."""
    found, gains, variances = [], [], []
    for domain in one["counts"]:
        texts, right, better, worse = domain["texts"], 0, 0, 0
        for key, count in domain["entries"].items():
            name = reading_of(one, rule, int(key))
            right += count[name]
            if name == "last":
                continue
            if "patterns" in count:
                place = {"entry": 1, "mean": 2}[name]
                better += sum(n for bits, n in count["patterns"].items() if bits[0] < bits[place])
                worse += sum(n for bits, n in count["patterns"].items() if bits[0] > bits[place])
            else:  # the most that the counts allow
                most = min(count[name], count["texts"] - count["last"])
                better, worse = better + most, worse + most - (count[name] - count["last"])
        difference = (better - worse) / texts
        found.append(100 * right / texts)
        gains.append(100 * difference)
        variances.append(1e4 * ((better + worse) / texts - difference**2) / texts)
    return fmean(found), fmean(gains), sum(variances) / len(variances) ** 2


def models_run(one: dict[str, Any], rule: Rule) -> float:
    """How many models a rule runs for a text."""
    counts = [(key, n["texts"]) for domain in one["counts"] for key, n in domain["entries"].items()]
    read = sum(n * (1 + (reading_of(one, rule, int(key)) == "mean")) for key, n in counts)
    return float(read / sum(n for _, n in counts))


def above_newest(runs: list[dict[str, Any]], rule: Rule) -> dict[str, float | None]:
    """Accuracy of a rule, and its difference to the newest model with the 95% interval: over seeds, or over texts."""
    figures = [gain(one, rule) for one in runs]
    gains = [one[1] for one in figures]
    seeds = sorted({one["seed"] for one in runs})
    if len(seeds) >= 3:
        by_seed = [fmean(g for g, one in zip(gains, runs, strict=True) if one["seed"] == seed) for seed in seeds]
        paired = paired_over_seeds(by_seed, [0.0] * len(seeds))
        low, high = paired.low, paired.high
    else:
        half = 1.96 * fmean(one[2] for one in figures) ** 0.5  # runs share their test texts
        low, high = fmean(gains) - half, fmean(gains) + half
    values = {"accuracy": fmean(one[0] for one in figures), "gain": fmean(gains), "low": low, "high": high}
    return {name: None if value is None else round(value, 2) for name, value in values.items()}


def above_together(runs: list[dict[str, Any]], rule: Rule) -> dict[str, float] | None:
    """Accuracy of a rule less multi-task's of the same seed, with the 95% interval over test texts."""
    together = {one["seed"]: fmean(one["multi-task"]) / 100 for one in runs if "multi-task" in one}
    pairs = [(gain(one, rule)[0] / 100, together[one["seed"]], one) for one in runs if one["seed"] in together]
    if not pairs:
        return None
    found = 100 * fmean(a - b for a, b, _ in pairs)
    texts = [sum(domain["texts"] for domain in one["counts"]) for *_, one in pairs]
    errors = [(a * (1 - a) + b * (1 - b)) / n for (a, b, _), n in zip(pairs, texts, strict=True)]
    half = 196 * fmean(errors) ** 0.5  # as if both answered other texts
    return {"gain": round(found, 2), "low": round(found - half, 2), "high": round(found + half, 2)}


def choose() -> None:
    """Apply the rule of the page to the runs, and write the figures."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    groups: dict[str, list[dict[str, Any]]] = {}
    for one in runs:
        name = one["stream"]
        name = "demo, to choose" if name == "demo" and one["seed"] < 10 else name
        if name.startswith("sentiment"):
            name = f"sentiment{LSTM}" if name.endswith(LSTM) else "sentiment"
        groups.setdefault(name, []).append(one)
    choosing = {name: some for name, some in groups.items() if name in ("demo, to choose", *CHOOSE[1:])}
    candidates: list[dict[str, Any]] = []
    for low, high, errors in product(LOW, HIGH, ERRORS):
        rule = (low, high, errors)
        if low <= high or not high:
            figures = {name: above_newest(some, rule) for name, some in choosing.items()}
            mean = fmean(one["accuracy"] or 0.0 for one in figures.values())
            models = fmean(models_run(one, rule) for some in choosing.values() for one in some)
            is_out = any(one["high"] is not None and one["high"] < 0 for one in figures.values())
            candidates.append({"rule": rule, "mean": round(mean, 2), "models": round(models, 2), "out": is_out})
    best = max(one["mean"] for one in candidates if not one["out"])
    left = [one for one in candidates if not one["out"] and one["mean"] >= best - TIE]
    least = min(one["models"] for one in left)
    tied = sorted((one["rule"] for one in left if one["models"] == least), key=lambda rule: (rule[2], *rule[:2]))
    chosen = tied[(len(tied) - 1) // 2]
    rules: dict[str, Rule] = {"chosen": chosen, "conflict": (0.5, 0.0, 0.0), "with mean": (chosen[0], 9.0, chosen[2])}
    rules["always"] = (9.0, 0.0, 0.0)
    streams = {}
    for name, some in groups.items():
        row: dict[str, Any] = {"runs": len(some), "seeds": sorted({one["seed"] for one in some})}
        row |= {key: round(fmean(summary(one)[key] for one in some), 2) for key in ("last", "told", "router")}
        together = [fmean(one["multi-task"]) for one in some if "multi-task" in one]
        row["multi-task"] = round(fmean(together), 2) if together else None
        row |= {key: above_newest(some, rule) for key, rule in rules.items()}
        row["less multi-task"] = above_together(some, chosen)
        row["carried"] = [[round(share, 2) for share in carried(one, 0.0)[:-1]] for one in some]
        streams[name] = row
    value = {"command": "python -m research.memory.tiers choose", "rules": rules, "tied": tied, "streams": streams}
    (RESULTS / "tiers.json").write_text(json.dumps({**value, "candidates": candidates}, indent=1) + "\n", "utf-8")
    print(json.dumps({"chosen": chosen, "tied": tied, "best": best}))
    for name, row in streams.items():
        print(name, {key: one for key, one in row.items() if key not in ("carried",)})


def summary(one: dict[str, Any]) -> dict[str, float]:
    """Averages of each reading that is the same for all entries."""

    def share(name: str) -> float:
        right = [sum(count[name] for count in domain["entries"].values()) for domain in one["counts"]]
        return round(fmean(100 * r / domain["texts"] for r, domain in zip(right, one["counts"], strict=True)), 2)

    routed = [domain["entries"].get(str(n), {"texts": 0})["texts"] for n, domain in enumerate(one["counts"])]
    figures = {name: share(name) for name in ("last", "entry", "mean")}
    figures["told"] = round(fmean(100 * domain["told"] / domain["texts"] for domain in one["counts"]), 2)
    figures["router"] = round(
        fmean(100 * n / domain["texts"] for n, domain in zip(routed, one["counts"], strict=True)), 2
    )
    if "multi-task" in one:
        figures["multi-task"] = round(fmean(one["multi-task"]), 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.memory.tiers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("stream")
    one.add_argument("seed", type=int)
    one.add_argument("--data", type=Path, default=Path("data"))
    commands.add_parser("choose")
    given = parser.parse_args()
    if given.command == "run":
        run(given.stream, given.seed, given.data)
    else:
        choose()


if __name__ == "__main__":
    main()
