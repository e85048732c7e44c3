"""The keys of a domain memory: statistics of a domain's texts, by which a router finds the domain of a text.

- With a pretrained encoder, a text is scored by the distance of its vector from the mean vectors of a domain, in units
  of a common variance. The original encoder is kept for it. (A covariance would route somewhat more texts right, but
  shows whose texts it is made of: see docs/privacy.md.) Means of labels tell domains apart that differ in their labels,
  but also whose texts they are made of; a private key is one mean with noise;
- else by naive Bayes: a key is in how many of the domain's distinct texts each bucket of words occurs.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.data.batches import Batch, Encoded
from memgrow.models.base import Encoder, read_all

BUCKETS, HASH_FACTOR = 8192, 40503  # token ids are spread over buckets by an odd factor: an id below 8,192 has its own
LEAST_TEXTS = 3  # a bucket that fewer texts of a domain have counts as empty: it could name a single person
SMOOTHING = 0.5  # texts that every bucket is taken to have in addition
LEAST_GROUP = 5  # distinct texts of a label that has its own mean
EXACT_SHARE = 16  # distinct texts for each number of a mean that needs no noise: membership has an AUC below 0.6
KEY, VARIANCE, TEXTS, NOISE = "key", "variance", "texts", "noise"  # around the means; texts of each; variance of noise


def key_of(data: Encoded, base: Encoder | None, private: bool) -> dict[str, Tensor]:
    """The key of a domain; `base` is the encoder that was there before the first domain."""
    if base is None:
        return {KEY: token_counts(data)}
    vectors = features(base, data)
    return private_key(data, vectors) if private else gaussian_key(data, vectors)


# Words


def buckets_of(texts: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The buckets of an example's tokens, each once."""
    tokens = np.concatenate([np.asarray(text, np.int64) for text in texts])
    return np.unique(tokens * HASH_FACTOR % BUCKETS)


def token_counts(data: Encoded) -> Tensor:
    """In how many distinct examples each bucket occurs (buckets); 0 where these are fewer than three."""
    distinct = {buckets_of(texts).tobytes() for texts in data.texts}
    counts = np.zeros(BUCKETS, np.int32)
    for one in distinct:
        counts[np.frombuffer(one, np.int64)] += 1
    return torch.from_numpy(np.where(counts < LEAST_TEXTS, 0, counts))


def scores_by_words(data: Encoded, keys: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """How well each key fits each text (texts, keys)."""
    counts = torch.stack([key[KEY].cpu() for key in keys]).double() + SMOOTHING
    weights = (counts / counts.sum(1, keepdim=True)).log().T  # (buckets, keys)
    found = [torch.from_numpy(buckets_of(texts)) for texts in data.texts]
    sizes = torch.tensor([0, *map(len, found)]).cumsum(0)[:-1]
    return F.embedding_bag(torch.cat(found), weights.contiguous(), sizes, mode="sum")


# Vectors


def features(base: Encoder, data: Encoded) -> Tensor:
    """The vectors of examples (examples, width) by the encoder; those of a pair's texts side by side."""
    if data.answered:  # a message is routed before it has a reply
        data = Encoded([texts[:1] for texts in data.texts], data.labels)
    texts = len(data.texts[0]) if len(data) else 1

    def vectors(batch: Batch) -> Tensor:
        return torch.cat(base(batch.words, batch.lengths).chunk(texts), -1)

    return read_all(base, data, vectors, texts * sum(base.sizes))


def distinct_texts(data: Encoded) -> dict[bytes, int]:
    """The last index of each distinct example, by its tokens."""
    return {b"|".join(np.asarray(text).tobytes() for text in texts): i for i, texts in enumerate(data.texts)}


def gaussian_key(data: Encoded, vectors: Tensor) -> dict[str, Tensor]:
    """The mean vector of each label's distinct texts, and the variance of a number around these means.

    Labels of fewer than `LEAST_GROUP` texts share a mean, so that none is nearly a single text's vector.
    """
    distinct = distinct_texts(data)
    counts = Counter(data.labels[index] for index in distinct.values())
    groups: dict[int, list[int]] = {}
    for index in distinct.values():
        label = data.labels[index]
        groups.setdefault(label if counts[label] >= LEAST_GROUP else -1, []).append(index)
    if len(groups) > 1 and len(groups.get(-1, groups)) < LEAST_GROUP:
        groups.pop(-1, None)
    parts = [vectors[rows].double() for rows in groups.values()]
    means = torch.stack([part.mean(0) for part in parts])
    around = torch.cat([part - mean for part, mean in zip(parts, means, strict=True)])
    return {
        KEY: means.float(),
        VARIANCE: around.square().mean().float().reshape(1),
        TEXTS: torch.tensor([len(part) for part in parts]),
    }


def private_key(data: Encoded, vectors: Tensor) -> dict[str, Tensor]:
    """One mean of all distinct texts, with noise where they are few, and the variance of a number around it.

    The noise hides each text, as in the statistics of drift. It is drawn from the texts: the same for the same texts.
    """
    distinct = distinct_texts(data)
    part = vectors[list(distinct.values())].double()
    mean, count = part.mean(0), len(part)
    variance = (part - mean).square().mean()
    effective = min(1.0, count / (EXACT_SHARE * len(mean))) * count
    seed = blake2b(b"||".join(sorted(distinct)), digest_size=32).digest()
    noise = torch.from_numpy(np.random.default_rng([*seed]).standard_normal(len(mean)))
    added = variance * (1 / effective - 1 / count)
    return {
        KEY: (mean + noise * torch.sqrt(added)).float()[None],
        VARIANCE: variance.float().reshape(1),
        TEXTS: torch.tensor([count]),
        NOISE: added.float().reshape(1),
    }


def scores_by_vectors(vectors: Tensor, keys: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """How well each key fits each vector (texts, keys): a domain is a mixture of its means, all alike.

    Means with noise are moved towards the centre of all, the noisier the more (an empirical Bayes estimate).
    """
    counts, means = [key[TEXTS].cpu() for key in keys], [key[KEY].cpu().double() for key in keys]
    summed = sum(float(count.sum() * key[VARIANCE]) for count, key in zip(counts, keys, strict=True))
    variance = max(1e-12, summed / max(1, int(sum(count.sum() - len(count) for count in counts))))
    noise = [max(0.0, float(key.get(NOISE, 0.0))) for key in keys]
    error = torch.cat([variance / count + one for count, one in zip(counts, noise, strict=True)])
    every = torch.cat(means)
    centre = (every / error[:, None]).sum(0) / (1 / error).sum()
    apart = max(1e-12, float(((every - centre).square().mean(1) - error).clamp(min=0).mean()))
    scores = []
    for one, added in zip(means, noise, strict=True):
        share = apart / (apart + added)
        own = variance + share * added
        near = -0.5 / own * torch.cdist(vectors.double(), centre + share * (one - centre)) ** 2
        scores.append(near.logsumexp(1) - math.log(len(one)) - 0.5 * one.shape[1] * math.log(own))
    return torch.stack(scores, 1)
