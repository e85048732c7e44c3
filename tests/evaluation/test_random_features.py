"""Random features of texts: the same on every machine, whatever else is looked at, and a kernel in effect."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.evaluation.random_features import CHUNK, DIRECTIONS, FEATURES, text_features

words = st.lists(st.text(max_size=6), max_size=12)
examples = st.lists(st.tuples(words) | st.tuples(words, words), min_size=1, max_size=3)


def naive_features(texts) -> list[float]:
    """The features of one example, word by word."""
    distinct = {(place, word) for place, text in enumerate(texts) for word in text}
    sums = [0.0] * DIRECTIONS
    for place, word in distinct:
        digest = hashlib.blake2b(f"{place} {word}".encode(errors="surrogatepass"), digest_size=DIRECTIONS // 8).digest()
        bits = int.from_bytes(digest, "big")
        for direction in range(DIRECTIONS):
            sums[direction] += 1 if bits >> (DIRECTIONS - 1 - direction) & 1 else -1
    scaled = [one / max(1, len(distinct)) ** 0.5 for one in sums]
    return [float(wave(one)) / DIRECTIONS**0.5 for wave in (np.cos, np.sin) for one in scaled]


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
