"""The streams of the study of the domain memory, from corpora in a folder."""

import gzip
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memgrow.data import Domain, Stream

Rows = list[dict[str, str]]
TEST = 1000  # test rows of a domain, at most
SENTIMENT = {
    "1": ("films", "products", "editorials", "tweets"),
    "2": ("tweets", "editorials", "products", "films"),
    "3": ("editorials", "films", "tweets", "products"),
}
SIX_REVIEWS = ("apparel", "baby", "health_personal_care", "dvd", "kitchen_housewares", "sports_outdoors")
FIVE_REVIEWS = ("books", "electronics", "music", "software", "toys_games")
MIXED_REVIEWS = ("MR", "baby", "imdb", "sports_outdoors")
GENRES = ("fiction", "government", "slate", "telephone", "travel")
TOPICS = ("agnews", "amazon", "dbpedia")


def read(path: Path) -> Rows:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    rows = [json.loads(line) for line in text.split("\n") if line]
    return [row for row in rows if row.get("text", "-").strip()]


def shuffled(rows: Sequence[Any], seed: int) -> list[Any]:
    return random.Random(seed).sample(list(rows), len(rows))


def pick(row: dict[str, str]) -> dict[str, str]:
    return {"text": row["text"], "label": row["label"]}


def per_label(rows: Rows, count: int, seed: int) -> Rows:
    """So many rows of each label."""
    by_label: dict[str, Rows] = {}
    for row in shuffled(rows, seed):
        by_label.setdefault(row["label"], []).append(row)
    return shuffled([pick(row) for label in sorted(by_label) for row in by_label[label][:count]], seed)


def sentiment(data: Path, order: str) -> Stream:
    """All rows, with the splits of the corpus: seeds differ in the training alone."""
    domains = []
    for name in SENTIMENT[order]:
        parts: dict[str, Rows] = {"train": [], "validation": [], "test": []}
        for row in read(data / "sentiment" / f"{name}.jsonl"):
            parts[row["split"]].append(pick(row))
        domains.append(Domain.from_rows(name, rows=parts["train"], validation=parts["validation"], test=parts["test"]))
    return Stream(domains)


def reviews(data: Path, names: Sequence[str], seed: int, rows: int) -> Stream:
    return Stream(
        Domain.from_rows(
            name,
            rows=shuffled(read(data / "reviews" / f"{name}_train.jsonl.gz"), seed)[:rows],
            test=read(data / "reviews" / f"{name}_test.jsonl.gz"),
        )
        for name in names
    )


def intents(data: Path, together: int, seed: int, count: int = 40) -> Stream:
    """CLINC150: so many of its ten domains at a time, in alphabetical order."""
    rows = read(data / "intents" / "clinc150.jsonl.gz")
    names, domains = sorted({row["domain"] for row in rows}), []
    for first in range(0, len(names), together):
        own = names[first : first + together]
        chosen = [row for row in rows if row["domain"] in own]
        train = per_label([row for row in chosen if row["split"] == "train"], count, seed)
        test = [pick(row) for row in chosen if row["split"] == "test"]
        domains.append(Domain.from_rows("+".join(own), rows=train, test=test))
    return Stream(domains)


def banking(data: Path, seed: int, count: int = 40) -> Stream:
    """Banking77: five domains of 15 labels each, drawn once; two labels are left out."""
    rows = read(data / "intents" / "banking77.jsonl.gz")
    labels, domains = random.Random(0).sample(sorted({row["label"] for row in rows}), 75), []
    for number in range(5):
        own = labels[15 * number : 15 * number + 15]
        train = per_label([row for row in rows if row["label"] in own and row["split"] == "train"], count, seed)
        test = [pick(row) for row in rows if row["label"] in own and row["split"] == "test"]
        domains.append(Domain.from_rows(f"bank{number + 1}", rows=train, test=test))
    return Stream(domains)


def topics(data: Path, seed: int, rows: int = 2000) -> Stream:
    """Three tasks with labels of their own."""
    domains = []
    for name in TOPICS:
        found = read(data / "topics" / f"{name}.jsonl.gz")
        train = shuffled([pick(row) for row in found if row["split"] == "train"], seed)[:rows]
        test = shuffled([pick(row) for row in found if row["split"] == "test"], 0)[:TEST]
        domains.append(Domain.from_rows(name, rows=train, test=test))
    return Stream(domains)


def genres(data: Path, seed: int, rows: int = 2500) -> Stream:
    """MultiNLI: part of the pairs of each genre; test pairs are of the matched development part."""

    def pairs(found: Rows) -> Rows:
        return [
            {"text": row["sentence1"], "pair": row["sentence2"], "label": row["gold_label"]}
            for row in found
            if row["gold_label"] != "-"
        ]

    train = read(data / "multinli" / "multinli_1.0_train.jsonl.gz")
    test = read(data / "multinli" / "multinli_1.0_dev_matched.jsonl.gz")
    domains = []
    for genre in GENRES:
        own = shuffled([row for row in train if row["genre"] == genre], seed)[:rows]
        asked = shuffled([row for row in test if row["genre"] == genre], 0)[:TEST]
        domains.append(Domain.from_rows(genre, rows=pairs(own), test=pairs(asked), pair="pair"))
    return Stream(domains)


STREAMS: dict[str, Callable[[Path, int], Stream]] = {
    "banking": lambda data, seed: banking(data, seed),
    "six-reviews": lambda data, seed: reviews(data, SIX_REVIEWS, seed, 1600),
    "mixed-reviews": lambda data, seed: reviews(data, MIXED_REVIEWS, seed, 1600),
    "topics": lambda data, seed: topics(data, seed),
    "intents": lambda data, seed: intents(data, 2, seed),
    "five-reviews": lambda data, seed: reviews(data, FIVE_REVIEWS, seed, 1600),
    "sentiment-1": lambda data, _: sentiment(data, "1"),
    "sentiment-2": lambda data, _: sentiment(data, "2"),
    "sentiment-3": lambda data, _: sentiment(data, "3"),
    "genres": lambda data, seed: genres(data, seed),
    "intents-10": lambda data, seed: intents(data, 1, seed),
}
"""By name; the first four choose, the others check."""


def stream_of(name: str, data: Path, seed: int) -> Stream:
    return STREAMS[name](data, seed)
