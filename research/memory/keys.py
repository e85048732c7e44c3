"""Which keys of a domain memory hide their texts: `python -m research.memory.keys vectors|attack|route|run|ends`.

    python -m research.memory.keys vectors --data DATA --out FOLDER                 vectors of the frozen encoder
    python -m research.memory.keys attack --out FOLDER                              membership by each key
    python -m research.memory.keys route --out FOLDER                               how many texts find their domain
    python -m research.memory.keys run sentiment-1 100 0 --data DATA --out FOLDER   train the default
    python -m research.memory.keys ends --out FOLDER                                its accuracy at the end by each key
    python -m research.memory.keys calibration --out FOLDER                         membership by calibration.json

DATA has the folders sentiment, reviews, intents and topics. FOLDER gets arrays, which are not part of the results.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from memgrow import Learner
from memgrow.data import Domain, Example, Stream
from memgrow.data.batches import Encoded, encode
from memgrow.data.text import Vocabulary
from memgrow.evaluation.calibration import fit_temperature
from memgrow.models import PretrainedEncoder, PretrainedSettings
from memgrow.models.domain_memory import SURE
from memgrow.models.hub import find_encoder
from memgrow.models.router import KEY, NOISE, TEXTS, VARIANCE, features, gaussian_key, private_key, scores_by_vectors
from memgrow.training.settings import defaults_for
from research.memory import streams
from research.memory.__main__ import RESULTS
from research.memory.privacy import auc, noise_aware, whitening

Vectors = tuple[Tensor, list[str]]  # with labels
SIZES, TEST, WORDS, DRAWS = (30, 100, 300), 300, 32, 20
RESULT = RESULTS / "keys.json"
REVIEWS = {
    "six-reviews": streams.SIX_REVIEWS,
    "mixed-reviews": streams.MIXED_REVIEWS,
    "five-reviews": streams.FIVE_REVIEWS,
}


def stream_of(name: str, texts: int, seed: int, data: Path) -> Stream:
    """A stream of so many training texts for each domain."""
    if name.startswith("sentiment"):
        whole = streams.sentiment(data, name[-1])
    else:
        whole = streams.reviews(data, REVIEWS[name], seed, 1600)

    def some(domain: Domain) -> Domain:
        train = streams.shuffled([*domain.train, *domain.validation], seed)[: texts + texts // 3]
        test = streams.shuffled(domain.test, 0)[:TEST]
        return replace(domain, train=tuple(train[:texts]), validation=tuple(train[texts:]), test=tuple(test))

    return Stream(some(domain) for domain in whole)


def run(name: str, texts: int, seed: int, data: Path, out: Path) -> None:
    """Train the default, and keep the logits of the newest model and of every entry, and the router's vectors."""
    began, stream = time.monotonic(), stream_of(name, texts, seed, data)
    training = replace(defaults_for("minilm").training, max_words=WORDS, drift=False)
    learner = Learner.create(None, encoder="minilm", training=training, seed=seed, device="cpu")
    for domain in stream:
        learner.adapt(Domain(domain.name, domain.train, domain.validation), threads=1)
    model = learner.classifier()
    memory = model.memory
    assert memory is not None
    assert memory.base is not None
    arrays: dict[str, Any] = {}
    for number, domain in enumerate(stream):
        for split in ("train", "test"):
            given = learner.split(domain, split)
            arrays[f"{split}{number}"] = features(memory.base, given).numpy()
            arrays[f"{split}_labels{number}"] = np.array(given.labels)
        arrays[f"newest{number}"] = model.plain_logits(given).numpy()
        entries = [memory.logits(model, given, one).numpy() for one in memory.names]
        arrays[f"entries{number}"] = np.stack(entries, 1)
    arrays["readers"] = np.array([sum(1 << one for one in readers) for readers in memory.readers])
    np.savez_compressed(out / f"{name}.{texts}.{seed}.npz", **arrays)
    right = [float((arrays[f"newest{n}"].argmax(1) == arrays[f"test_labels{n}"]).mean()) for n in range(len(stream))]
    print(name, texts, seed, np.round(right, 3), arrays["readers"], round(time.monotonic() - began), flush=True)


# Vectors of the frozen encoder, once


def corpora(data: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Names, and texts with labels."""

    def some(rows: streams.Rows, count: int) -> list[tuple[str, str]]:
        return [(row["text"], row["label"]) for row in random.Random(0).sample(rows, min(count, len(rows)))]

    def each(rows: streams.Rows, count: int) -> list[tuple[str, str]]:
        by_label: dict[str, list[tuple[str, str]]] = {}
        for row in streams.shuffled(rows, 0):
            by_label.setdefault(row["label"], []).append((row["text"], row["label"]))
        return [row for label in sorted(by_label) for row in by_label[label][:count]]

    for name, file, train, test in (("bank", "banking77", 40, 15), ("clinc", "clinc150", 30, 10)):
        found = streams.read(data / "intents" / f"{file}.jsonl.gz")
        for split, count in (("train", train), ("test", test)):
            yield f"{name}_{split}", each([row for row in found if row["split"] == split], count)
    for name in ("amazon", "agnews", "dbpedia"):
        yield name, some(streams.read(data / "topics" / f"{name}.jsonl.gz"), 3000 if name == "amazon" else 900)
    for name in streams.SENTIMENT["1"]:
        distinct = {row["text"]: row for row in streams.read(data / "sentiment" / f"{name}.jsonl")}
        yield name, some([*distinct.values()], 4200 if name == "films" else 700)
    for name in {*streams.SIX_REVIEWS, *streams.MIXED_REVIEWS}:
        yield name, some(streams.read(data / "reviews" / f"{name}_train.jsonl.gz"), 600)
    yield "words", [(word, "") for word in random.Random(0).sample(vocabulary(), 3000)]


def vocabulary() -> list[str]:
    """Words of the encoder's own vocabulary."""
    pieces = json.loads(find_encoder("minilm").tokenizer)["model"]["vocab"]
    return [piece for piece in pieces if piece.isascii() and piece.isalpha() and len(piece) > 2]


def compute(data: Path, out: Path) -> None:
    training = replace(defaults_for("minilm").training, max_words=WORDS)
    learner = Learner.create("finetune", encoder="minilm", training=training, device="cpu")
    settings = learner.settings
    assert isinstance(settings, PretrainedSettings)
    encoder = PretrainedEncoder.create(settings, learner.encoder or find_encoder("minilm")).eval()
    for name, rows in corpora(data):
        if not (path := out / f"{name}.npz").exists():
            tokens = learner.config.tokenize([Example(text) for text, _ in rows])
            found = features(encoder, encode(tokens, Vocabulary())).numpy()
            np.savez(path, x=found, y=np.array([label for _, label in rows]))
            print(name, len(rows), flush=True)


def load(out: Path, name: str) -> Vectors:
    found = np.load(out / f"{name}.npz")
    return torch.from_numpy(found["x"]).double(), [str(label) for label in found["y"]]


# Candidates: keys of a domain's vectors


def directions(name: str, out: Path) -> Tensor:
    """A projection (384, D), by its name: "random 32", "words 32", or "" for none."""
    if not name:
        return torch.eye(384, dtype=torch.double)
    kind, size = name.split()
    if kind == "random":
        drawn = torch.randn(384, int(size), generator=torch.Generator().manual_seed(0), dtype=torch.double)
        found: Tensor = torch.linalg.qr(drawn)[0]
        return found
    values, axes = torch.linalg.eigh(load(out, "words")[0].T.cov())
    whole: Tensor = (axes / values.clamp(min=1e-12).sqrt()).flip(1)
    return whole[:, : int(size)]


def encoded(labels: Sequence[str], start: int = 0) -> Encoded:
    names = sorted(set(labels))
    return Encoded([((start + i,),) for i in range(len(labels))], [names.index(one) for one in labels])


def make_key(kind: str, vectors: Tensor, labels: Sequence[str], start: int) -> Mapping[str, Tensor]:
    """`start` draws the noise."""
    data = encoded(labels, start)
    if kind == "private":
        return private_key(data, vectors)
    key = gaussian_key(data, vectors)
    if kind == "label":
        return key
    if kind == "noisy labels":
        parts = [private_key(data.some(rows), vectors[rows]) for rows in by_label(data)]
        variance = key[VARIANCE]
        noise = torch.cat([one[NOISE] for one in parts]).mean().reshape(1)
        whole = torch.cat([one[KEY] for one in parts])
        return {KEY: whole, VARIANCE: variance, TEXTS: torch.cat([one[TEXTS] for one in parts]), NOISE: noise}
    step = {"signs": 2, "4 bits": 16}[kind]  # levels over three standard deviations of the numbers of a mean
    centre, wide = key[KEY].mean(), 3 * key[KEY].std()
    level = ((key[KEY] - centre) / wide).clamp(-1, 1 - 1e-6)
    return {**key, KEY: centre + wide * ((level * step / 2).floor() + 0.5) * 2 / step}


def by_label(data: Encoded) -> list[list[int]]:
    return [[i for i, own in enumerate(data.labels) if own == label] for label in sorted(set(data.labels))]


CANDIDATES = {
    "label": ("label", ""),
    "private": ("private", ""),
    **{f"private, {name}": ("private", name) for name in ("random 32", "words 16", "words 32", "words 64")},
    **{f"noisy labels, {name}": ("noisy labels", name) for name in ("words 32", "words 64")},
    "signs": ("signs", ""),
    "4 bits": ("4 bits", ""),
}


# Routing


def routed(domains: Sequence[tuple[Vectors, Vectors]], kinds: Sequence[str], basis: Tensor, draw: int) -> float:
    """The share of texts that find their domain; each domain's key is of its own kind."""
    keys = [
        make_key(kind, train[0] @ basis, train[1], 10_000 * (10 * draw + number))
        for number, (kind, (train, _)) in enumerate(zip(kinds, domains, strict=True))
    ]
    right = [
        (scores_by_vectors(test[0] @ basis, keys).argmax(1) == number).double().mean()
        for number, (_, test) in enumerate(domains)
    ]
    return 100 * fmean(map(float, right))


def drawn(vectors: Vectors, size: int, draw: int) -> tuple[Vectors, Vectors]:
    """Training texts and others."""
    rows = random.Random(draw).sample(range(len(vectors[1])), len(vectors[1]))
    return some_of(vectors, rows[:size]), some_of(vectors, rows[300:600])


def some_of(vectors: Vectors, rows: Sequence[int]) -> Vectors:
    return vectors[0][list(rows)], [vectors[1][row] for row in rows]


def with_new_labels(out: Path, name: str, labels: int, rows: int, draw: int) -> list[tuple[Vectors, Vectors]]:
    """Five domains of so many labels each, with so many texts a label."""
    train, test = load(out, f"{name}_train"), load(out, f"{name}_test")
    chosen, found = random.Random(0).sample(sorted(set(train[1])), 5 * labels), []
    for number in range(5):
        own = chosen[number * labels : (number + 1) * labels]
        places = [[i for i, label in enumerate(train[1]) if label == one] for one in own]
        picked = [i for some in places for i in random.Random(draw).sample(some, rows)]
        found.append((some_of(train, picked), some_of(test, [i for i, one in enumerate(test[1]) if one in own])))
    return found


def route(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"same labels": {}, "new labels": {}}
    groups = {"six-reviews": streams.SIX_REVIEWS, "mixed-reviews": streams.MIXED_REVIEWS}
    groups |= {"topics": streams.TOPICS, "sentiment": streams.SENTIMENT["1"]}
    for stream, names in groups.items():
        pools = [load(out, name) for name in names]
        for candidate, (kind, basis) in CANDIDATES.items():
            for size in SIZES:
                shares = [
                    routed([drawn(one, size, draw) for one in pools], [kind] * len(pools), directions(basis, out), draw)
                    for draw in range(3)
                ]
                found["same labels"].setdefault(stream, {}).setdefault(candidate, {})[size] = round(fmean(shares), 1)
        print(stream, found["same labels"][stream], flush=True)
    mixed = {"first private": ["private", *["label"] * 4]}
    for stream, labels in product(("bank", "clinc"), (2, 3, 5, 15)):
        row: dict[str, Any] = {}
        for candidate, (kind, basis) in (*CANDIDATES.items(), ("first private", ("", ""))):
            kinds = mixed.get(candidate, [kind] * 5)
            for rows in (7, 20, 30):
                shares = [
                    routed(with_new_labels(out, stream, labels, rows, draw), kinds, directions(basis, out), draw)
                    for draw in range(2)
                ]
                row.setdefault(candidate, {})[rows] = round(fmean(shares), 1)
        found["new labels"][f"{stream}, {labels} labels"] = row
        print(stream, labels, row, flush=True)
    return found


# Membership


def attacks(key: Mapping[str, Tensor], given: Tensor, own: Tensor, others: Tensor) -> dict[str, Tensor]:
    """Scores of vectors, with the number of their own mean, by an attacker with other vectors of the same kind."""
    means, centre, covariance = key[KEY].double(), others.mean(0), others.T.cov()
    ratios = noise_aware(key, given, others)
    root = whitening(covariance)
    fisher = ((given - centre) @ root) @ ((means - centre) @ root).T
    near = -torch.cdist(given, means)
    named = {"likelihood ratio": ratios, "without the noise": fisher, "distance": near}
    found = {name: one.amax(1) for name, one in named.items()}
    return found | {f"{name}, own label": one.gather(1, own[:, None])[:, 0] for name, one in named.items()}


def membership(pool: Vectors, size: int, kind: str, basis: Tensor) -> dict[str, float]:
    """AUC of each attack, the mean over draws."""
    found: dict[str, list[float]] = {}
    vectors, labels = pool[0] @ basis, pool[1]
    for draw in range(DRAWS):
        rows = random.Random(f"{draw} {size}").sample(range(len(labels)), min(len(labels), 2 * size + 3000))
        members, asked, others = rows[:size], rows[: 2 * size], vectors[rows[2 * size :]]
        key = make_key(kind, vectors[members], [labels[row] for row in members], 10_000 * draw)
        names = sorted({labels[row] for row in members})
        several = len(key[KEY]) == len(names)
        own = torch.tensor([names.index(labels[row]) if several and labels[row] in names else 0 for row in asked])
        for name, scores in attacks(key, vectors[asked], own, others).items():
            found.setdefault(name, []).append(auc(scores[:size], scores[size:]))
    return {name: round(fmean(values), 3) for name, values in found.items()}


def attack(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("amazon", "films"):
        for candidate, (kind, basis) in CANDIDATES.items():
            row = {size: membership(load(out, name), size, kind, directions(basis, out)) for size in SIZES}
            found.setdefault(name, {})[candidate] = row
            print(name, candidate, {size: max(one.values()) for size, one in row.items()}, flush=True)
    return found


# Accuracy at the end, by the models that were trained


def answers(path: Path, kind: str, basis: Tensor) -> list[np.ndarray[Any, Any]]:
    """Which test texts of each domain the model answers rightly if its keys are of this kind."""
    kept = np.load(path)
    number = len(kept["readers"])
    keys = []
    for own in range(number):
        data = Encoded([((10_000 * own + i,),) for i in range(len(kept[f"train{own}"]))], [*kept[f"train_labels{own}"]])
        labels = [str(one) for one in data.labels]
        keys.append(make_key(kind, torch.from_numpy(kept[f"train{own}"]).double() @ basis, labels, 10_000 * own))
    found = []
    for own in range(number):
        chosen = scores_by_vectors(torch.from_numpy(kept[f"test{own}"]).double() @ basis, keys).argmax(1).numpy()
        newest, entries = (torch.from_numpy(kept[f"{name}{own}"]).softmax(-1).numpy() for name in ("newest", "entries"))
        entry, reader = entries[np.arange(len(chosen)), chosen], kept["readers"][chosen]
        with_newest = (reader >> (number - 1) & 1).astype(bool)
        mean = np.where((with_newest & (chosen < number - 1))[:, None], (newest + entry) / 2, entry)
        alone = (newest.max(1) >= SURE) & all(one >> (number - 1) & 1 for one in kept["readers"])
        found.append(np.where(alone[:, None], newest, mean).argmax(1) == kept[f"test_labels{own}"])
    return found


def ends(out: Path) -> dict[str, Any]:
    """Average accuracy at the end, and the difference to `label` with its 95% interval over test texts."""
    found: dict[str, Any] = {}
    for path in sorted(out.glob("*.*.?.npz")):
        usual = answers(path, "label", directions("", out))
        row: dict[str, Any] = {"newest": round(100 * fmean(float(one.mean()) for one in newest_right(path)), 2)}
        for candidate, (kind, basis) in CANDIDATES.items():
            right = answers(path, kind, directions(basis, out))
            gaps = [a.astype(float) - b for a, b in zip(right, usual, strict=True)]
            mean = 100 * fmean(float(one.mean()) for one in gaps)
            half = 196 * sum(float(one.var()) / len(one) for one in gaps) ** 0.5 / len(gaps)
            accuracy = 100 * fmean(float(one.mean()) for one in right)
            row[candidate] = [round(value, 2) for value in (accuracy, mean, mean - half, mean + half)]
        found[path.stem] = row
        print(path.stem, row, flush=True)
    return found


def newest_right(path: Path) -> list[np.ndarray[Any, Any]]:
    kept = np.load(path)
    return [kept[f"newest{n}"].argmax(1) == kept[f"test_labels{n}"] for n in range(len(kept["readers"]))]


def calibration(out: Path) -> dict[str, Any]:
    """Membership among the validation texts whose means calibration.json has, by models that were trained."""
    found: dict[str, Any] = {}
    for size in (10, 30, 100):
        scores: dict[str, list[float]] = {"likelihood ratio": []}
        for path in sorted(out.glob("*.*.?.npz")):
            kept = np.load(path)
            for own, draw in product(range(len(kept["readers"])), range(DRAWS)):
                logits, labels = torch.from_numpy(kept[f"newest{own}"]), torch.from_numpy(kept[f"test_labels{own}"])
                rows = random.Random(f"{draw} {size}").sample(range(len(labels)), len(labels))
                members, asked, others = rows[:size], rows[: 2 * size], rows[2 * size :]
                temperature = fit_temperature(logits[members], labels[members])
                own_figures = figures(logits, labels, temperature)
                key = {KEY: own_figures[members].mean(0, keepdim=True), TEXTS: torch.tensor([size])}
                ratio = noise_aware(key, own_figures[asked], own_figures[others])[:, 0]
                scores["likelihood ratio"].append(auc(ratio[:size], ratio[size:]))
        found[str(size)] = {name: round(fmean(values), 3) for name, values in scores.items()}
    print(found)
    return found


def figures(logits: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """What calibration.json has the means of (texts, 5)."""
    columns = [(logits.argmax(1) == labels).double()]
    for divisor in (1.0, temperature):
        logs = (logits.double() / divisor).log_softmax(1)
        columns += [logs.amax(1).exp(), -logs.gather(1, labels[:, None])[:, 0]]
    return torch.stack(columns, 1)


def write(part: str, value: dict[str, Any]) -> None:
    whole = json.loads(RESULT.read_bytes()) if RESULT.exists() else {"command": "python -m research.memory.keys"}
    whole |= {"draws": DRAWS, part: value}
    RESULT.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.memory.keys", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("stream")
    one.add_argument("texts", type=int)
    one.add_argument("seed", type=int)
    parts = {"route": route, "attack": attack, "ends": ends, "calibration": calibration}
    for some in (one, *(commands.add_parser(name) for name in ("vectors", *parts))):
        some.add_argument("--data", type=Path, default=Path("data"))
        some.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "run":
        run(given.stream, given.texts, given.seed, given.data, given.out)
    elif given.command == "vectors":
        compute(given.data, given.out)
    else:
        write(given.command, parts[given.command](given.out))


if __name__ == "__main__":
    main()
