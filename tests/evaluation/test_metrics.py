"""Metrics of labels and of paired scores, held against their definitions."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow.evaluation.metrics import Confusion, paired_over_seeds

SCORES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=10)


def naive_f1(right, given, label):
    hits = sum(a == b == label for a, b in zip(right, given, strict=True))
    precision, recall = hits / max(given.count(label), 1), hits / max(right.count(label), 1)
    return precision, recall, 2 * precision * recall / ((precision + recall) or 1)


@pytest.mark.parametrize("seed", range(3))
def test_label_metrics_follow_their_definitions(seed):
    rng = np.random.default_rng(seed)
    right, given = rng.integers(0, 4, 60).tolist(), rng.integers(0, 3, 60).tolist()  # the last label is never given
    found = Confusion.of("abcd", right, given)
    assert found.accuracy == pytest.approx(np.mean(np.equal(right, given)))
    assert found.counts[2][1] == sum((a, b) == (2, 1) for a, b in zip(right, given, strict=True))
    for number, metrics in enumerate(found.by_label().values()):
        assert (metrics.precision, metrics.recall, metrics.f1) == pytest.approx(naive_f1(right, given, number))
    assert found.macro_f1 == pytest.approx(np.mean([naive_f1(right, given, label)[2] for label in range(4)]))


def test_labels_that_do_not_occur_are_left_out():
    found = Confusion.of(("a", "b", "c"), [0, 0, 2], [0, 2, 2])
    assert list(found.by_label()) == ["a", "c"]
    assert found.macro_f1 == pytest.approx(2 / 3)
    assert (found.baseline, found.most_frequent) == (pytest.approx(2 / 3), "a")


def test_a_pair_of_methods_is_compared_as_by_hand():
    found = paired_over_seeds([5.0, 7.0, 9.0], [4.0, 5.0, 6.0])  # differences 1, 2, 3
    t = 2 * math.sqrt(3)
    assert (found.difference, found.std, found.n) == (2.0, 1.0, 3)
    assert found.p_t == pytest.approx(1 - t / math.sqrt(t**2 + 2))  # closed form for two degrees of freedom
    assert (found.low, found.high) == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))


@pytest.mark.parametrize(
    ("a", "b", "p_t"),
    [
        ([0.7], [0.6], None),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], 1.0),
        ([0.71, 0.61, 0.81], [0.70, 0.60, 0.80], None),  # equal up to rounding
    ],
)
def test_without_spread_there_is_no_interval(a, b, p_t):
    found = paired_over_seeds(a, b)
    assert (found.low, found.high, found.p_t) == (None, None, p_t)


@given(SCORES)
def test_properties_of_every_comparison(pairs):
    a, b = zip(*pairs, strict=True)
    there, back = paired_over_seeds(a, b), paired_over_seeds(b, a)
    assert there.difference == -back.difference
    assert there.p_t == back.p_t
    if there.low is not None and abs(there.p_t - 0.05) > 1e-6:
        assert (there.low > 0 or there.high < 0) == (there.p_t < 0.05)


def test_equal_methods_differ_as_often_as_the_level_says():
    found = [paired_over_seeds(a, b) for a, b in np.random.default_rng(2).normal(0, 1, (1500, 2, 5))]
    assert np.mean([one.p_t < 0.05 for one in found]) == pytest.approx(0.05, abs=0.02)


def test_without_scipy_there_is_no_interval(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    found = paired_over_seeds([0.1, 0.2], [0.1, 0.3])
    assert (found.low, found.p_t, found.n) == (None, None, 2)
