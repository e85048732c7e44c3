"""What statistics in a model's folder tell of its training texts: `python -m research.memory.privacy DATA`.

DATA is the folder of the corpus sentiment. An attacker has a statistic of some texts and knows other texts of the same
kind. Membership: a score of texts should not separate those that were used from others (AUC 0.5). Inversion: a beam
search over words should not find a text that the domain has many times. Names of statistics after DATA: these alone
are attacked again.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from memgrow import Learner
from memgrow.data import Example
from memgrow.data.batches import Encoded, Tokenized, encode, tokenize_examples
from memgrow.data.text import Vocabulary, store_words, tokenize
from memgrow.evaluation.drift import ALPHA, EXACT_TEXTS, MIN_TEXTS, judge, summarize, text_features
from memgrow.models import PretrainedEncoder, PretrainedSettings
from memgrow.models.hub import find_encoder
from memgrow.models.router import (
    BUCKETS,
    KEY,
    LEAST_GROUP,
    NOISE,
    TEXTS,
    VARIANCE,
    buckets_of,
    features,
    gaussian_key,
    private_key,
    token_counts,
)

RESULT = Path(__file__).parents[2] / "results" / "privacy.json"
SIZES, DRAWS, BACKGROUND = (30, 100, 300, 1000), 20, 3000
SECRET = ["patient", "jane", "doe", "code", "zebra", "9481", "kappa"]
COPIES, BEAM, ENCODER_WORDS = 200, 50, 300

Scores = Mapping[str, Tensor]  # of candidates, by attack
Extend = Callable[[tuple[int, ...]], Tensor]  # scores of the words of a text with each further word


class Pool:
    """Texts of one kind as words, features and vectors. The last of them are the attacker's."""

    def __init__(self, rows: Sequence[tuple[str, str]]) -> None:
        self.labels = [label for _, label in rows]
        self.numbers = torch.tensor([sorted(set(self.labels)).index(label) for label in self.labels])
        self.examples = [Example(text, label=label) for text, label in rows]
        self.words = tokenize_examples(self.examples, 400)
        self.features = torch.from_numpy(text_features(self.words.texts))

    @cached_property
    def learner(self) -> Learner:
        return Learner.create("finetune", encoder="minilm", device="cpu")

    @property
    def tokenize(self) -> Callable[[Sequence[Example]], Tokenized]:
        return self.learner.config.tokenize

    @cached_property
    def encoder(self) -> PretrainedEncoder:
        settings = self.learner.settings
        assert isinstance(settings, PretrainedSettings)
        return PretrainedEncoder.create(settings, self.learner.encoder or find_encoder("minilm")).eval()

    @cached_property
    def vectors(self) -> Tensor:
        return self.encoded_vectors(self.examples).double()

    def encoded_vectors(self, examples: Sequence[Example]) -> Tensor:
        return features(self.encoder, encode(self.tokenize(examples), Vocabulary()))

    def draw(self, rng: random.Random, size: int) -> tuple[list[int], list[int], list[int]]:
        """Members, as many others, and the attacker's texts."""
        some = rng.sample(range(len(self.examples)), 2 * size + BACKGROUND)
        return some[:size], some[size : 2 * size], some[2 * size :]


def auc(members: Tensor, others: Tensor) -> float:
    """The probability that a member has the higher score."""
    scores = torch.cat([members, others]).double()
    _, place, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - (counts - 1) / 2)[place]
    return float((ranks[: len(members)].sum() - len(members) * (len(members) + 1) / 2) / len(members) / len(others))


def whitening(covariance: Tensor) -> Tensor:
    """What turns vectors of this covariance, which may be rounded, into those of the identity."""
    values, directions = torch.linalg.eigh(covariance)
    root: Tensor = directions / values.clamp(min=1e-3 * float(values.mean())).sqrt()
    return root


def fisher(given: Tensor, mean: Tensor, background: Tensor) -> Tensor:
    """The likelihood ratio of a mean that a text is part of or not, if features were Gaussian."""
    centre = background.mean(0)
    root = whitening(background.T.cov())
    return (given - centre) @ root @ ((mean - centre) @ root)


# Statistics, each with attacks: (pool, members, candidates, background) to scores


def stored_mean(pool: Pool, members: list[int]) -> Tensor:
    """Of a domain with these texts, as it is in drift.json."""
    found = summarize([pool.examples[index] for index in members], (), tokenize, None)
    assert found is not None
    return torch.tensor(found.mean, dtype=torch.double)


def drift(pool: Pool, members: list[int], candidates: list[int], background: list[int]) -> Scores:
    mean, given = stored_mean(pool, members), pool.features[candidates]
    return {"kernel": given @ mean, "likelihood ratio": fisher(given, mean, pool.features[background])}


def as_encoded(indices: Sequence[int], labels: Sequence[int]) -> Encoded:
    """Texts that are told apart by their indices."""
    return Encoded([((index,),) for index in indices], list(labels))


def noise_aware(key: Mapping[str, Tensor], given: Tensor, others: Tensor) -> Tensor:
    """Likelihood ratios (vectors, means) of a mean that a vector is part of or not, its noise included."""
    centre, covariance = others.mean(0), others.T.cov()
    texts, noise = float(key[TEXTS].double().mean()), float(key.get(NOISE, torch.zeros(1)))
    ridge = noise + 1e-6 * float(covariance.diagonal().mean())
    inverse = torch.linalg.inv(covariance / texts + ridge * torch.eye(len(covariance), dtype=torch.double))
    part = (given - centre) / texts  # what a text adds to a mean
    along = part @ inverse
    ratios: Tensor = along @ (key[KEY].double() - centre).T - 0.5 * (along * part).sum(1, keepdim=True)
    return ratios


def by_key(key: Mapping[str, Tensor], given: Tensor, others: Tensor) -> Scores:
    """Scores of vectors by a key; `others` are the attacker's vectors."""
    usual, means = whitening(others.T.cov()), key[KEY].double()
    near = (torch.cdist(given, means).square() / key[VARIANCE].double()).amin(1)
    ratios = torch.stack([fisher(given, mean, others) for mean in means])
    return {
        "density": ((given - others.mean(0)) @ usual).square().sum(1) - near,
        "likelihood ratio of the means": ratios.amax(0),
        "likelihood ratio with the noise": noise_aware(key, given, others).amax(1),
        "distance from the means": -torch.cdist(given, means).amin(1),
    }


def by_label(pool: Pool, members: list[int], candidates: list[int], background: list[int]) -> Scores:
    key = gaussian_key(as_encoded(members, pool.numbers[members].tolist()), pool.vectors[members])
    return by_key(key, pool.vectors[candidates], pool.vectors[background])


def private(pool: Pool, members: list[int], candidates: list[int], background: list[int]) -> Scores:
    key = private_key(as_encoded(members, [0] * len(members)), pool.vectors[members])
    return by_key(key, pool.vectors[candidates], pool.vectors[background])


def stored_vocabulary(pool: Pool, members: list[int], least: int = 2) -> Vocabulary:
    return store_words(Vocabulary(), [pool.words.texts[index] for index in members], 1, least).vocabulary


def document_shares(pool: Pool, texts: list[int], vocabulary: Vocabulary) -> Tensor:
    """In what share of some texts each bucket occurs."""
    counts = np.full(BUCKETS, 0.5)
    for index in texts:
        counts[buckets_of([vocabulary.encode(pool.words.texts[index][0])])] += 1
    return torch.from_numpy(counts / (len(texts) + 1))


def counts(pool: Pool, members: list[int], candidates: list[int], background: list[int]) -> Scores:
    vocabulary = stored_vocabulary(pool, members)
    coded = {index: (vocabulary.encode(pool.words.texts[index][0]),) for index in (*members, *candidates)}
    key = token_counts(Encoded([coded[index] for index in members], [0] * len(members)))
    usual = document_shares(pool, background, vocabulary)
    ratio = ((key + 0.5) / (len(members) + 1)).log() - usual.log()
    chosen = [torch.from_numpy(buckets_of(coded[index])) for index in candidates]
    return {
        "likelihood ratio": torch.stack([ratio[one].sum() for one in chosen]),
        "mean likelihood ratio": torch.stack([ratio[one].mean() for one in chosen]),
        "excess": torch.stack([(key[one] / len(members) - usual[one]).sum() for one in chosen]),
    }


def vocabulary(pool: Pool, members: list[int], candidates: list[int], background: list[int], least: int = 2) -> Scores:
    known = stored_vocabulary(pool, members, least)
    frequency = Counter(word for index in background for word in set(pool.words.texts[index][0]))
    given = [set(pool.words.texts[index][0]) for index in candidates]
    rare = [sum(np.log(len(background) / (frequency[w] + 1)) * (1 if w in known else -1) for w in one) for one in given]
    return {
        "share of known words": torch.tensor([fmean(word in known for word in one) for one in given]),
        "weighed words": torch.tensor([value / len(one) for value, one in zip(rare, given, strict=True)]),
    }


Attack = Callable[[Pool, list[int], list[int], list[int]], Scores]
STATISTICS: dict[str, Attack] = {
    "drift": drift,
    "label": by_label,
    "private": private,
    "counts": counts,
    "vocabulary": vocabulary,
    "vocabulary_5": partial(vocabulary, least=5),
}


def membership(pool: Pool, attack: Attack, size: int) -> dict[str, float]:
    """AUC of each attack, the mean over draws."""
    found: dict[str, list[float]] = {}
    for number in range(DRAWS):
        members, others, background = pool.draw(random.Random(f"{number} {size}"), size)
        for name, scores in attack(pool, members, [*members, *others], background).items():
            found.setdefault(name, []).append(auc(scores[:size], scores[size:]))
    return {name: round(fmean(values), 3) for name, values in found.items()}


def aucs(pool: Pool, name: str) -> dict[str, dict[str, float]]:
    """AUC of the attacks on a statistic by number of texts."""
    sizes = [size for size in SIZES if name != "drift" or size >= MIN_TEXTS]
    return {str(size): membership(pool, STATISTICS[name], size) for size in sizes}


# Inversion: a domain has one text many times, among others


def invert(extend: Extend, length: int, beam: int) -> tuple[int, ...]:
    """The words of highest score that a beam search finds."""
    kept: list[tuple[int, ...]] = [()]
    for size in range(1, length + 1):
        found: dict[frozenset[int], float] = {}
        for prefix in kept:
            values, words = extend(prefix).topk(beam + length)
            texts = [frozenset((*prefix, word)) for word in words.tolist()]
            found |= dict(zip(texts, values.tolist(), strict=True))
        whole = [words for words in found if len(words) == size]
        kept = [tuple(sorted(words)) for words in sorted(whole, key=lambda one: -found[one])[:beam]]
    return kept[0]


def found_words(extend: Extend, words: Sequence[str], beam: int = BEAM) -> int:
    return len({words[index] for index in invert(extend, len(SECRET), beam)} & {*SECRET})


def inverted_drift(pool: Pool, members: list[int], background: list[int], words: Sequence[str]) -> dict[str, int]:
    rows = [*(pool.examples[index] for index in members), *[Example(" ".join(SECRET))] * COPIES]
    signs = text_features([([word],) for word in words])
    half = signs.shape[1] // 2
    directions = torch.from_numpy(np.arctan2(signs[:, half:], signs[:, :half])).round()  # +1 or -1 of each word
    centre = pool.features[background].mean(0)

    def search(mean: Tensor) -> int:
        def extend(prefix: tuple[int, ...]) -> Tensor:
            projected = (directions + directions[list(prefix)].sum(0)) / (len(prefix) + 1) ** 0.5
            return torch.cat((projected.cos(), projected.sin()), 1) @ (mean - centre)

        return found_words(extend, words)

    summary = summarize(rows, (), tokenize, None)
    assert summary is not None
    every = torch.from_numpy(text_features(tokenize_examples(rows, 400).texts)).mean(0)
    return {"stored": search(torch.tensor(summary.mean, dtype=torch.double)), "if each row counted": search(every)}


def inverted_keys(
    pool: Pool, members: list[int], background: list[int], words: Sequence[str], is_private: bool = False
) -> dict[str, int]:
    """One label has the text and as few others as a mean may have; the attacker has a short list of words."""
    chosen = [*words[-ENCODER_WORDS + len(SECRET) :], *SECRET]
    secret = pool.encoded_vectors([Example(" ".join(SECRET))]).double()
    few = pool.vectors[members[: LEAST_GROUP - 1]]
    vectors = torch.cat([pool.vectors[members], few, secret.expand(COPIES, -1)])
    data = as_encoded(
        [*range(len(members) + LEAST_GROUP - 1), *[-1] * COPIES], [0] * len(members) + [1] * (LEAST_GROUP - 1 + COPIES)
    )
    own = (private_key if is_private else gaussian_key)(data, vectors)[KEY][-1].double()
    every = vectors[len(members) :].mean(0)
    root, centre = whitening(pool.vectors[background].T.cov()), pool.vectors[background].mean(0)

    def search(mean: Tensor) -> int:
        def extend(prefix: tuple[int, ...]) -> Tensor:
            start = [chosen[index] for index in prefix]
            given = pool.encoded_vectors([Example(" ".join([*start, word])) for word in chosen]).double()
            return torch.cosine_similarity((given - centre) @ root, (mean - centre) @ root)

        return found_words(extend, chosen, 3)

    return {"stored": search(own), "if each row counted": search(every)}


def inverted_counts(pool: Pool, members: list[int], background: list[int], words: Sequence[str]) -> dict[str, int]:
    """The attacker even knows the number of each word."""
    numbers = {word: 2 + index for index, word in enumerate(words)}
    own = [tuple(numbers.get(word, 1) for word in pool.words.texts[index][0]) for index in members]
    rows = [*own, *[tuple(numbers[word] for word in SECRET)] * COPIES]
    usual = np.full(BUCKETS, 0.5)
    for index in background:
        usual[buckets_of([[numbers.get(word, 1) for word in pool.words.texts[index][0]]])] += 1
    every = np.zeros(BUCKETS)
    for row in rows:
        every[buckets_of([row])] += 1
    buckets = np.array([int(buckets_of([[numbers[word]]])[0]) for word in words])

    def search(counts: Tensor) -> int:
        value = (((counts + 0.5) / counts.sum()).log() - torch.from_numpy(usual / usual.sum()).log())[buckets]

        def extend(prefix: tuple[int, ...]) -> Tensor:
            return value + value[list(prefix)].sum()

        return found_words(extend, words)

    stored = token_counts(Encoded([(row,) for row in rows], [0] * len(rows)))
    return {"stored": search(stored.double()), "if each row counted": search(torch.from_numpy(every))}


Inverted = Callable[[Pool, list[int], list[int], Sequence[str]], dict[str, int]]
INVERTED: dict[str, Inverted] = {
    "drift": inverted_drift,
    "label": inverted_keys,
    "private": partial(inverted_keys, is_private=True),
    "counts": inverted_counts,
}


# What less costs


def noticed(texts: Sequence[Sequence[Example]], size: int, exact: int) -> float:
    """The share of windows of 100 texts of other domains that alarm; summaries of `exact` texts need no noise."""
    alarms = []
    with patch.multiple("memgrow.evaluation.drift", EXACT_TEXTS=exact, MIN_TEXTS=MIN_TEXTS // 2):
        known = [summarize(some[:size], (), tokenize, None) for some in texts]
    for number, one in enumerate(known):
        assert one is not None
        for some in (other for place, other in enumerate(texts) if place != number):
            features = text_features(tokenize_examples(some, 400).texts)
            for start in range(0, len(some) - 99, 100):
                alarms.append(judge(100, features[start : start + 100].mean(0), {"known": one}).p <= ALPHA)
    return round(fmean(alarms), 3)


def rows_of(folder: Path, name: str) -> list[tuple[str, str]]:
    """The distinct texts of a domain, with their labels."""
    rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [*{row["text"]: row["label"] for row in rows}.items()]


def attacked(pool: Pool) -> tuple[list[int], list[str], list[int]]:
    """Texts of a domain that has the secret many times, words to search it among, and the attacker's texts."""
    members, _, background = pool.draw(random.Random(0), 100)
    words = [*dict.fromkeys(word for index in background for word in pool.words.texts[index][0]), *SECRET]
    return members, words, background


def statistic(pool: Pool, name: str, members: list[int], words: Sequence[str], background: list[int]) -> dict[str, Any]:
    found: dict[str, Any] = {"auc": aucs(pool, name)}
    if name in INVERTED:
        found["words_found"] = INVERTED[name](pool, members, background, words)
    print(name, json.dumps(found), flush=True)
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    pool = Pool(rows_of(folder, "films"))
    if chosen := sys.argv[2:]:
        value = json.loads(RESULT.read_bytes())
        members, words, background = attacked(pool)
        for name in chosen:
            value["statistics"][name] = statistic(pool, name, members, words, background)
        RESULT.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        return
    members, words, background = attacked(pool)
    texts = []
    for name in ("films", "products", "editorials", "tweets"):
        texts.append([Example(text) for text, _ in random.Random(0).sample(rows_of(folder, name), 1000)])
    found: dict[str, Any] = {}
    for name in STATISTICS:
        found[name] = statistic(pool, name, members, words, background)
    watched = {
        str(size): {"noise": noticed(texts, size, EXACT_TEXTS), "none": noticed(texts, size, 1)} for size in SIZES[1:]
    }
    value = {
        "command": "python -m research.memory.privacy data/sentiment",
        "draws": DRAWS,
        "background": BACKGROUND,
        "secret_words": len(SECRET),
        "copies": COPIES,
        "candidates": len(words),
        "statistics": found,
        "drift_noticed": watched,
    }
    RESULT.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
