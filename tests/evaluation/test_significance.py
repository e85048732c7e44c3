"""Paired comparison over seeds: by hand, and what its p-values promise."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow.errors import DataError
from memgrow.evaluation.significance import paired_over_seeds, sign_flip

SCORES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=10)


def test_a_pair_of_methods_is_compared_as_by_hand():
    found = paired_over_seeds([5.0, 7.0, 9.0], [4.0, 5.0, 6.0])  # differences 1, 2, 3
    t = 2 * math.sqrt(3)
    assert (found.difference, found.std, found.n) == (2.0, 1.0, 3)
    assert found.p_t == pytest.approx(1 - t / math.sqrt(t**2 + 2))  # closed form for two degrees of freedom
    assert found.p_permutation == 2 / 8
    assert (found.low, found.high) == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))


@pytest.mark.parametrize(
    ("a", "b", "p_t", "p_permutation"),
    [
        ([0.7], [0.6], None, 1.0),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], 1.0, 1.0),
        ([0.71, 0.61, 0.81], [0.70, 0.60, 0.80], None, 2 / 8),  # equal up to rounding
    ],
)
def test_without_spread_there_is_no_interval(a, b, p_t, p_permutation):
    found = paired_over_seeds(a, b)
    assert (found.low, found.high, found.p_t, found.p_permutation) == (None, None, p_t, p_permutation)


@given(SCORES)
def test_properties_of_every_comparison(pairs):
    a, b = zip(*pairs, strict=True)
    there, back = paired_over_seeds(a, b), paired_over_seeds(b, a)
    assert there.difference == -back.difference
    assert (there.p_t, there.p_permutation) == (back.p_t, back.p_permutation)
    assert 2 / 2**there.n <= there.p_permutation <= 1
    if there.low is not None and abs(there.p_t - 0.05) > 1e-6:
        assert (there.low > 0 or there.high < 0) == (there.p_t < 0.05)


def test_many_seeds_are_flipped_at_random_to_nearly_the_same_p():
    differences = np.random.default_rng(1).normal(0.4, 1, 17)
    signs = 2 * ((np.arange(2**17)[:, None] >> np.arange(17)) % 2) - 1
    exact = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12)
    assert sign_flip(differences) == pytest.approx(exact, abs=0.01)
    assert sign_flip(np.ones(40)) > 0


def test_equal_methods_differ_as_often_as_the_level_says():
    found = [paired_over_seeds(a, b) for a, b in np.random.default_rng(2).normal(0, 1, (1500, 2, 5))]
    assert np.mean([one.p_t < 0.05 for one in found]) == pytest.approx(0.05, abs=0.02)
    assert np.mean([one.p_permutation < 0.07 for one in found]) <= 0.09


def test_bad_scores_are_errors_and_without_scipy_there_is_no_interval(monkeypatch):
    for a, b in [([], []), ([[0.5]], [[0.5]]), ([0.5, float("nan")], [0.5, 0.5]), ([0.1, 0.2], [0.1, 0.2, 0.3])]:
        with pytest.raises(DataError):
            paired_over_seeds(a, b)
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    found = paired_over_seeds([0.1, 0.2], [0.1, 0.3])
    assert (found.difference, found.low, found.p_t) == (pytest.approx(-0.05), None, None)
