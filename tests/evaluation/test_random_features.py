"""Random features of texts: the same on every machine, whatever else is looked at, and a kernel in effect."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.evaluation.random_features import CHUNK, FEATURES, naive_features, text_features

words = st.lists(st.text(max_size=6), max_size=12)
examples = st.lists(st.tuples(words) | st.tuples(words, words), min_size=1, max_size=3)


@given(examples)
@settings(max_examples=10, deadline=None)
def test_they_are_those_of_the_naive_way_for_any_words(texts):
    found = text_features(texts)
    np.testing.assert_allclose(found, [naive_features(one) for one in texts], atol=1e-5)
    np.testing.assert_allclose((found**2).sum(1), 1, rtol=1e-5)


def test_they_do_not_change_with_order_repetition_or_company():
    text = ["a", "quiet", "moving", "book"]
    many = text_features([[["other", str(number)]] for number in range(CHUNK)] + [[text]])
    for same in ([*reversed(text)], text + text):
        np.testing.assert_allclose(text_features([[same]])[0], many[-1], atol=1e-6)
    assert text_features([]).shape == (0, FEATURES)
    assert not np.allclose(text_features([[["a"], ["b"]]]), text_features([[["b"], ["a"]]]))


def test_they_are_what_saved_models_hold():
    """Other features would make every reference in a folder wrong: they would need another KIND."""
    signs = text_features([[["soup"], ["ein", "Stück"]]])[0] > 0
    assert hashlib.sha256(np.packbits(signs).tobytes()).hexdigest()[:16] == "9940e2af5d2a466d"


@pytest.mark.parametrize("shared", [0, 5, 10])
def test_their_products_are_a_gaussian_kernel_of_what_texts_share(shared):
    pairs = [
        ([f"{number} {word}" for word in range(10)], [f"{number} {word + 10 - shared}" for word in range(10)])
        for number in range(100)
    ]
    first, second = (text_features([[pair[side]] for pair in pairs]) for side in (0, 1))
    assert float((first * second).sum(1).mean()) == pytest.approx(math.exp(-(1 - shared / 10)), abs=0.03)
