"""How well routers find a text's domain: `python -m research.memory.routers DATA`, a folder of corpora.

Only training texts are used, of streams that have no part in the study of the memory.
"""

import gzip
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from memgrow import Learner
from memgrow.data import Example
from memgrow.data.batches import collate, token_mask
from memgrow.models import PretrainedEncoder
from memgrow.models.router import SMOOTHING, buckets_of, token_counts

RESULTS = Path(__file__).parents[2] / "results" / "memory"
REVIEWS = ("apparel", "baby", "health_personal_care", "dvd", "kitchen_housewares", "sports_outdoors")
LAYERS = (0, 1, 2, 3, 4, 6)
SHRINKAGE = (0.01, 0.1, 0.5)
Texts = dict[str, tuple[list[tuple[str, str]], list[str]]]  # by domain: texts with labels, and texts to route


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def streams(data: Path) -> Iterator[tuple[str, Texts]]:
    rng = random.Random(0)
    domains: Texts = {}
    for name in REVIEWS:
        rows = rng.sample(read(data / f"reviews/{name}_train.jsonl.gz"), 800)
        domains[name] = [(row["text"], row["label"]) for row in rows[:400]], [row["text"] for row in rows[400:]]
    yield "six reviews", domains
    rows = [row for row in read(data / "intents/banking77.jsonl.gz") if row["split"] == "train"]
    labels = rng.sample(sorted({row["label"] for row in rows}), 75)
    domains = {}
    for number in range(5):
        own = [row for row in rows if row["label"] in labels[15 * number : 15 * number + 15]]
        own = rng.sample(own, len(own))
        domains[str(number)] = [(row["text"], row["label"]) for row in own[:300]], [row["text"] for row in own[300:600]]
    yield "banking77 in five", domains
    rows = rng.sample(read(data / "multinli/multinli_1.0_train.jsonl.gz"), 60_000)
    domains = {}
    for genre in sorted({row["genre"] for row in rows}):
        own = [row for row in rows if row["genre"] == genre][:800]
        pairs = [(f"{row['sentence1']} {row['sentence2']}", row["gold_label"]) for row in own]
        domains[genre] = pairs[:400], [text for text, _ in pairs[400:]]
    yield "genres", domains


class Features:
    """Mean-pooled states of the pretrained encoder after each layer; it is never trained."""

    def __init__(self) -> None:
        from memgrow.models import PretrainedSettings
        from memgrow.models.hub import find_encoder

        learner = Learner.create("finetune", encoder="minilm", device="cpu")
        settings = learner.settings
        assert isinstance(settings, PretrainedSettings)
        self.learner = learner
        self.encoder = PretrainedEncoder.create(settings, learner.encoder or find_encoder("minilm")).eval()

    @torch.no_grad()
    def of(self, texts: list[str]) -> tuple[dict[int, Tensor], list[Any]]:
        tokens = self.learner.config.tokenize([Example(text) for text in texts])
        from memgrow.data.batches import encode
        from memgrow.data.text import Vocabulary

        data = encode(tokens, Vocabulary(), ())
        order = sorted(range(len(data)), key=lambda one: sum(map(len, data.texts[one])))
        found: dict[int, list[Any]] = {layer: [None] * len(data) for layer in LAYERS}
        for first in range(0, len(order), 32):
            chosen = order[first : first + 32]
            batch = collate(data, chosen, torch.device("cpu"))
            mask = token_mask(batch.words, batch.lengths)
            backbone: Any = self.encoder.backbone
            states = backbone(
                input_ids=batch.words.masked_fill(~mask, 0), attention_mask=mask.long(), output_hidden_states=True
            ).hidden_states
            for layer in LAYERS:
                pooled = (states[layer] * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
                for row, index in enumerate(chosen):
                    found[layer][index] = pooled[row]
        return {layer: torch.stack(rows).double() for layer, rows in found.items()}, list(data.texts)


def words(train: list[list[Any]], test: list[list[Any]]) -> list[Tensor]:
    """Log-probabilities (texts, domains) of each domain's test texts by naive Bayes, as the memory's keys are now."""
    from memgrow.data.batches import Encoded

    counts = (
        torch.stack([token_counts(Encoded(texts, [0] * len(texts), False)) for texts in train]).double() + SMOOTHING
    )
    weights = (counts / counts.sum(1, keepdim=True)).log()
    return [torch.stack([weights[:, torch.from_numpy(buckets_of(one))].sum(1) for one in texts]) for texts in test]


def gaussian(groups: list[list[Tensor]], test: list[Tensor], shrinkage: float) -> list[Tensor]:
    """The same by Gaussians with one covariance; a domain has a mean for each of its groups of training texts."""
    means = [torch.stack([rows.mean(0) for rows in domain]) for domain in groups]
    centred = torch.cat([rows - rows.mean(0) for domain in groups for rows in domain])
    covariance = centred.T @ centred / max(1, len(centred) - sum(map(len, means)))
    size = len(covariance)
    covariance += shrinkage * covariance.trace() / size * torch.eye(size, dtype=covariance.dtype)
    root = torch.linalg.cholesky(covariance)
    white = [torch.linalg.solve_triangular(root, one.T, upper=False).T for one in means]
    found = []
    for rows in test:
        given = torch.linalg.solve_triangular(root, rows.T, upper=False).T
        scores = [(-0.5 * torch.cdist(given, one) ** 2).logsumexp(1) - np.log(len(one)) for one in white]
        found.append(torch.stack(scores, 1))
    return found


def accuracy(scores: list[Tensor]) -> float:
    return round(100 * fmean(float((one.argmax(1) == number).double().mean()) for number, one in enumerate(scores)), 1)


def compare(domains: Texts, features: Features) -> dict[str, float]:
    train = [features.of([text for text, _ in rows]) for rows, _ in domains.values()]
    test = [features.of(rows) for _, rows in domains.values()]
    labels = [[label for _, label in rows] for rows, _ in domains.values()]
    by_words = words([tokens for _, tokens in train], [tokens for _, tokens in test])
    found = {"words": accuracy(by_words)}
    for layer in LAYERS:
        asked = [one[layer] for one, _ in test]
        whole = [[one[layer]] for one, _ in train]
        split = [
            [one[layer][[index for index, own in enumerate(given) if own == label]] for label in sorted(set(given))]
            for (one, _), given in zip(train, labels, strict=True)
        ]
        for shrinkage in SHRINKAGE:
            for name, groups in (("domain", whole), ("label", split)):
                scores = gaussian(groups, asked, shrinkage)
                found[f"layer {layer}, mean by {name}, {shrinkage}"] = accuracy(scores)
                both = [a.log_softmax(1) + b.log_softmax(1) for a, b in zip(by_words, scores, strict=True)]
                found[f"layer {layer}, mean by {name}, {shrinkage}, and words"] = accuracy(both)
    return found


def main() -> None:
    features = Features()
    found = {}
    for name, domains in streams(Path(sys.argv[1])):
        found[name] = compare(domains, features)
        print(name, found[name]["words"], flush=True)
    mean = {key: round(fmean(one[key] for one in found.values()), 1) for key in found["genres"]}
    value = {"command": "python -m research.memory.routers DATA", "mean": mean, "streams": found}
    (RESULTS / "routers.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    for key, one in sorted(mean.items(), key=lambda item: -item[1])[:25]:
        print(one, key)


if __name__ == "__main__":
    main()
