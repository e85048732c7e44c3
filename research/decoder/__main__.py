"""Replies of a causal language model, domain after domain: `python -m research.decoder --data DATA --out FOLDER`.

DATA has cornell.tsv.gz and ubuntu_train.tsv.gz, ubuntu_dev.tsv.gz, ubuntu_test.tsv.gz. A run is a method and a seed; it
writes FOLDER/METHOD-SEED.json, and is not run again while the file is there. results/decoder/summary.json has the
means. The rules are in RULES.md.
"""

import argparse
import gzip
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

import memgrow
from memgrow import Learner
from memgrow.data import Domain, Example, Stream, load_for_evaluation
from memgrow.data.text import tokenize
from memgrow.data.vectors import read_vectors
from memgrow.evaluation.replies import bleu2
from memgrow.training.settings import defaults_for
from research.common.replies import w2v_similarity

RESULTS = Path(__file__).parents[2] / "results" / "decoder"
TRAIN, VALIDATION, TEST, LONGEST = 300, 80, 200, 40
GRU = "gru"
METHODS = ("lora", "lora+memory", "lora+average", "ewc", "rehearsal", "multi-task", GRU)
RATES = (2e-4, 5e-4, 1e-3, 2e-3)
FILES = {"films": ("cornell.tsv.gz",) * 3, "ubuntu": ("ubuntu_train.tsv.gz", "ubuntu_dev.tsv.gz", "ubuntu_test.tsv.gz")}


def read(path: Path) -> list[tuple[str, str]]:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()[1:]
    rows = [tuple(line.split("\t")) for line in lines]
    return sorted({(row[0], row[1]) for row in rows if len(row) == 2 and all(one.strip() for one in row)})


def stream_of(data: Path, seed: int) -> Stream:
    """Test pairs are the same for every seed; a message is in one part only."""
    domains = []
    for name, files in FILES.items():
        test = random.Random(0).sample(read(data / files[2]), TEST)
        known = {message for message, _ in test}
        rows = [row for row in read(data / files[0]) if row[0] not in known]
        drawn = random.Random(seed + 1).sample(rows, TRAIN + VALIDATION)
        parts = (drawn[:TRAIN], drawn[TRAIN:], test)
        domains.append(Domain(name, *(tuple(Example(one, reply=other) for one, other in part) for part in parts)))
    return Stream(domains)


def create(method: str, model: str, seed: int, device: str, rate: float | None = None) -> Learner:
    if method == GRU:
        return Learner.create(encoder="gru", task="reply", seed=seed, device="cpu")  # the sizes for few rows
    usual = defaults_for(model)
    training = usual.training if rate is None else replace(usual.training, new_rate=rate)
    return Learner.create(method, model=usual.model, training=training, options=usual.options, seed=seed, device=device)


def perplexities(learner: Learner, stream: Stream, part: str = "test") -> dict[str, dict[str, float]]:
    """Per token of the model, and per word of the response."""
    found = {}
    for domain in stream:
        tally = learner.trained().tally(learner.split(domain, part))
        words = sum(len(tokenize(one.reply or "")) + 1 for one in getattr(domain, part))
        total, tokens = float(tally.sums.sum()), float(tally.counts.sum())
        found[domain.name] = {"token": round(exp(-total / tokens), 3), "word": round(exp(-total / words), 3)}
    return found


def replies(learner: Learner, stream: Stream) -> dict[str, list[str]]:
    return {one.name: [r.text for r in learner.reply(list(one.test), max_words=LONGEST)] for one in stream}


def run(method: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    began, stream = time.monotonic(), stream_of(given.data, seed)
    learner = create(method, given.model, seed, given.device, given.rate)
    text = list(load_for_evaluation([given.text]).stream) if method != GRU else []
    stages: list[Any] = []
    texts: list[Any] = []

    def learned(stage: Any, new: bool) -> None:
        stages.append({"learned": list(stage.learned), "epochs": stage.epochs, **perplexities(learner, stream)})
        before = stage.note.get("texts_before", {})
        now = learner.history.matrix.rows[-1].scores
        texts.append({name: [round(1 / score, 3), round(1 / now[name], 3)] for name, score in before.items()})
        print(method, seed, stages[-1], texts[-1], round(time.monotonic() - began), flush=True)

    learner.learn(stream, watch=text, on_stage=learned)
    trained = time.monotonic() - began
    router = None
    if "memory" in method:
        rows = {one.name: learner.route([row.text for row in one.test]) for one in stream}
        router = {name: fmean(max(one, key=one.__getitem__) == name for one in some) for name, some in rows.items()}
    return {
        "method": method,
        "seed": seed,
        "stages": stages,
        "texts": texts,
        "router": router,
        "replies": replies(learner, stream),
        "train_seconds": round(trained, 1),
        "parameters_trained": learner.history.stages[-1].trained,
        "settings": {"training": vars(learner.training), "encoder": Path(str(given.model)).name},
        "versions": {"memgrow": memgrow.__version__, "torch": torch.__version__, "device": given.device},
    }


def base_model(given: argparse.Namespace) -> dict[str, Any]:
    """The model before training: additions that begin at zero, and no step."""
    stream = stream_of(given.data, 0)
    learner = create("lora", given.model, 0, given.device, rate=1e-12)
    learner.training = replace(learner.training, epochs=1, rate=1e-12)
    learner.adapt(stream[0])
    found = {"stages": [{"learned": [], **perplexities(learner, stream)}], "replies": replies(learner, stream)}
    return {"method": "base", "seed": 0, **found}


def score_replies(runs: Sequence[dict[str, Any]], given: argparse.Namespace) -> None:
    """BLEU-2 and, with `--w2v`, W2V-Sim of all runs."""
    stream = stream_of(given.data, 0)
    wanted = {domain.name: [tokenize(one.reply or "") for one in domain.test] for domain in stream}
    said = [{name: [tokenize(text) for text in texts] for name, texts in one["replies"].items()} for one in runs]
    words = sorted({word for one in (*said, wanted) for texts in one.values() for text in texts for word in text})
    rows = read_vectors(given.w2v, words).rows if given.w2v else {}
    for one, own in zip(runs, said, strict=True):
        one["bleu2"] = {name: round(bleu2(texts, wanted[name]), 3) for name, texts in own.items()}
        if rows:
            similar = {name: w2v_similarity(texts, wanted[name], dict(rows)) for name, texts in own.items()}
            one["w2v_sim"] = {name: round(float(np.mean(values)), 4) for name, values in similar.items()}


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means and standard deviations over seeds, by method."""

    def over(values: list[float]) -> list[float]:
        return [round(fmean(values), 3), round(stdev(values), 3) if len(values) > 1 else 0.0]

    found: dict[str, Any] = {}
    for method in dict.fromkeys(one["method"] for one in runs):
        own = [one for one in runs if one["method"] == method]
        stages = range(len(own[0]["stages"]))
        row: dict[str, Any] = {"seeds": len(own)}
        for unit in ("token", "word"):
            row[f"perplexity_{unit}"] = [
                {name: over([one["stages"][at][name][unit] for one in own]) for name in FILES} for at in stages
            ]
        if len(stages) > 1:
            changes = [one["stages"][1]["films"]["token"] / one["stages"][0]["films"]["token"] - 1 for one in own]
            row["films_perplexity_rises_percent"] = over([100 * change for change in changes])
        for name in ("bleu2", "w2v_sim") if "w2v_sim" in own[0] else ("bleu2",):
            row[name] = {domain: over([one[name][domain] for one in own]) for domain in FILES}
        if own[0].get("router"):
            row["router"] = {domain: over([100 * one["router"][domain] for one in own]) for domain in FILES}
        if texts := [one["texts"] for one in own if one.get("texts") and one["texts"][0]]:
            pairs = [(next(iter(one[0].values()))[0], next(iter(one[-1].values()))[1]) for one in texts]
            row["text_before_and_after"] = [over([pair[side] for pair in pairs]) for side in (0, 1)]
        found[method] = row
    return found


def tune(given: argparse.Namespace) -> None:
    stream, found = stream_of(given.data, 100), {}
    for rate in RATES:
        learner = create("lora", given.model, 100, given.device, rate)
        loss = []
        for domain in stream:
            learner.adapt(domain)
            loss.append(log(perplexities(learner, Stream([domain]), "validation")[domain.name]["token"]))
        found[f"{rate:g}"] = {"loss": [round(one, 4) for one in loss], "sum": round(sum(loss), 4)}
        print(rate, found[f"{rate:g}"], flush=True)
        write(RESULTS / "tune.json", found)


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.decoder", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--model", default="smollm2", help="a name, a folder or a hub name")
    parser.add_argument("--text", type=Path, default=Path("docs/privacy.md"), help="a plain text to watch")
    parser.add_argument("--w2v", type=Path, help="word vectors; without them W2V-Sim is not measured")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--rate", type=float, help="learning rate of LoRA, in place of the default")
    parser.add_argument("--table", action="store_true", help="only summarize the runs that are there")
    parser.add_argument("--tune", action="store_true", help="only compare learning rates, on other pairs")
    given = parser.parse_args()
    if given.tune:
        tune(given)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    copied = given.out / "watched.txt"  # only files of that ending are read as plain text
    copied.write_text(given.text.read_text(encoding="utf-8"), encoding="utf-8")
    given.text = copied
    for seed in range(given.seeds if not given.table else 0):
        for method in given.methods.split(","):
            if not (path := given.out / f"{method}-{seed}.json").exists():
                write(path, run(method, seed, given))
    paths = [given.out / f"{method}-{seed}.json" for method in METHODS for seed in range(given.seeds)]
    if not (base := given.out / "base-0.json").exists() and not given.table:
        write(base, base_model(given))
    runs = [json.loads(path.read_bytes()) for path in (base, *paths) if path.exists()]
    score_replies(runs, given)
    vectors = given.w2v.name if given.w2v else None
    sizes = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
    command = "python -m research.decoder --data DATA --out RUNS"
    write(RESULTS / "summary.json", {"command": command, "sizes": sizes, "w2v": vectors, "rows": summary(runs)})
    copied.unlink()


if __name__ == "__main__":
    main()
