"""The attacks on stored statistics find what there is to find, and nothing in what is stored."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from memgrow.data import Example
from memgrow.data.text import tokenize
from memgrow.evaluation.drift import text_features
from memgrow.models.router import gaussian_key, private_key
from research.memory.privacy import SECRET, as_encoded, auc, by_key, fisher, invert, inverted_drift

RNG = np.random.default_rng(0)


def test_auc_is_the_share_of_pairs_in_the_right_order():
    members, others = torch.randint(0, 6, (20,)).double(), torch.randint(0, 5, (30,)).double()
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in product(members.tolist(), others.tolist())]
    assert auc(members, others) == pytest.approx(np.mean(pairs))


def test_a_beam_search_finds_the_best_words():
    values = torch.arange(20.0)
    assert invert(lambda prefix: values + values[list(prefix)].sum(), 4, 5) == (16, 17, 18, 19)


def test_who_is_in_a_mean_of_few_vectors_shows():
    vectors = torch.from_numpy(RNG.normal(size=(2100, 50)))
    scores = fisher(vectors[:100], vectors[:50].mean(0), vectors[100:])
    assert auc(scores[:50], scores[50:]) > 0.7


def test_a_text_that_a_domain_has_many_times_is_found_in_the_mean_of_rows_but_not_in_what_is_stored():
    words = [*(f"w{number}" for number in range(800)), *SECRET]
    examples = [Example(" ".join(RNG.choice(words[:800], 12))) for _ in range(700)]
    features = torch.from_numpy(text_features([(tokenize(one.text),) for one in examples]))
    pool = SimpleNamespace(examples=examples, features=features)
    found = inverted_drift(pool, [*range(150)], [*range(150, 700)], words)
    assert found["if each row counted"] == len(SECRET)
    assert found["stored"] <= 1


@pytest.mark.parametrize(("size", "draws"), [(30, 40), (100, 20), (300, 10)])
def test_a_private_key_hides_who_is_in_a_domain_and_means_of_labels_do_not(size, draws):
    wide = torch.linspace(1, 0.1, 64)  # a falling spectrum, as that of an encoder's vectors

    def worst(kind) -> float:
        random, found = torch.Generator().manual_seed(size), {}
        for draw in range(draws):
            vectors = torch.randn(2 * size + 1000, 64, generator=random).double() * wide
            data = as_encoded([number + 10_000 * draw for number in range(size)], [n % 2 for n in range(size)])
            for name, scores in by_key(kind(data, vectors[:size]), vectors[: 2 * size], vectors[2 * size :]).items():
                found.setdefault(name, []).append(auc(scores[:size], scores[size:]))
        return max(np.mean(values) for values in found.values())

    assert worst(private_key) <= 0.6
    assert worst(gaussian_key) > 0.6
