"""Figures of seeds against values worked out by hand, what intervals and p-values promise, and Holm's correction."""

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow.errors import DataError, SettingsError
from memgrow.metrics.significance import holm, paired_over_seeds, sign_flip, spread

ACCURACIES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=10)
P_VALUES = st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=8)


def test_the_spread_is_that_worked_out_by_hand():
    found = spread([1.0, 2.0, 3.0])
    assert (found.mean, found.std, found.n) == (2.0, 1.0, 3)
    half = 4.302653 / math.sqrt(3)  # the 97.5% point of t with two degrees of freedom
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), rel=1e-6)


def test_a_pair_of_methods_is_compared_as_by_hand():
    found = paired_over_seeds([5.0, 7.0, 9.0], [4.0, 5.0, 6.0])  # differences 1, 2, 3
    t = 2 * math.sqrt(3)
    assert (found.difference, found.std, found.n) == (2.0, 1.0, 3)
    assert found.p_t == pytest.approx(1 - t / math.sqrt(t**2 + 2))  # two degrees of freedom have a closed form
    assert found.p_permutation == 2 / 8  # all signs equal, either way
    assert (found.low, found.high) == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))


def test_a_single_seed_has_no_spread_and_proves_nothing():
    alone = spread([0.7])
    assert (alone.std, alone.low, alone.high) == (None, None, None)
    found = paired_over_seeds([0.7], [0.6])
    assert (found.p_t, found.low, found.high, found.p_permutation) == (None, None, None, 1.0)


def test_equal_figures_differ_by_nothing():
    found = paired_over_seeds([0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    assert (found.difference, found.p_t, found.p_permutation) == (0.0, 1.0, 1.0)


def test_differences_that_are_equal_up_to_rounding_are_no_certainty():
    found = paired_over_seeds([0.71, 0.61, 0.81], [0.70, 0.60, 0.80])
    assert (found.p_t, found.low) == (None, None)
    assert found.p_permutation == 2 / 8


@given(ACCURACIES)
def test_turning_the_methods_round_turns_the_differences_round(pairs):
    a, b = zip(*pairs, strict=True)
    there, back = paired_over_seeds(a, b), paired_over_seeds(b, a)
    assert there.difference == -back.difference
    assert (there.p_t, there.p_permutation) == (back.p_t, back.p_permutation)
    if there.low is not None:
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


@given(ACCURACIES)
def test_the_interval_leaves_out_zero_just_when_p_is_below_five_in_a_hundred(pairs):
    found = paired_over_seeds(*zip(*pairs, strict=True))
    if found.low is not None and abs(found.p_t - 0.05) > 1e-6:
        assert (found.low > 0 or found.high < 0) == (found.p_t < 0.05)


@given(ACCURACIES)
def test_no_permutation_is_rarer_than_the_signs_as_they_are_and_their_opposite(pairs):
    found = paired_over_seeds(*zip(*pairs, strict=True))
    assert 2 / 2**found.n <= found.p_permutation <= 1


def test_many_seeds_are_flipped_at_random_to_nearly_the_same_p():
    differences = np.random.default_rng(1).normal(0.4, 1, 17)
    signs = 2 * ((np.arange(2**17)[:, None] >> np.arange(17)) % 2) - 1
    exact = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12)
    assert sign_flip(differences) == pytest.approx(exact, abs=0.01)
    assert sign_flip(np.ones(40)) > 0


@pytest.mark.parametrize("seeds", [3, 10])
def test_equal_methods_differ_as_often_as_the_level_says(seeds):
    draws = np.random.default_rng(2).normal(0, 1, (1500, 2, seeds))
    found = [paired_over_seeds(a, b) for a, b in draws]
    assert np.mean([one.p_t < 0.05 for one in found]) == pytest.approx(0.05, abs=0.02)
    assert np.mean([one.p_t < 0.5 for one in found]) == pytest.approx(0.5, abs=0.04)
    assert np.mean([one.p_permutation < 0.05 for one in found]) <= 0.07


def test_a_real_difference_is_found():
    rng = np.random.default_rng(3)
    found = paired_over_seeds(0.63 + rng.normal(0, 0.01, 10), 0.60 + rng.normal(0, 0.01, 10))
    assert found.p_t < 0.01
    assert found.p_permutation < 0.01
    assert found.low < 0.03 < found.high


def test_the_interval_of_the_mean_holds_the_truth_as_often_as_it_says():
    found = [spread(row) for row in np.random.default_rng(4).normal(0.6, 0.02, (1500, 5))]
    assert np.mean([one.low <= 0.6 <= one.high for one in found]) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("values", [[], [[0.5]], [0.5, float("nan")]])
def test_figures_of_failed_runs_are_refused(values):
    with pytest.raises(DataError, match="one finite number for each seed"):
        spread(values)


def test_seeds_without_a_partner_are_refused():
    with pytest.raises(DataError, match="2 figures cannot be set beside 3"):
        paired_over_seeds([0.1, 0.2], [0.1, 0.2, 0.3])


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(SettingsError, match=r"memgrow\[stats\]"):
        spread([0.1, 0.2])
    with pytest.raises(SettingsError, match=r"memgrow\[stats\]"):
        paired_over_seeds([0.1, 0.2], [0.1, 0.3])


def test_what_was_found_can_be_written_as_json():
    for found in (spread([0.5]), paired_over_seeds([0.5, 0.6], [0.4, 0.6])):
        assert json.loads(json.dumps(found.to_json(), allow_nan=False)) == found.to_json()


def test_holm_is_that_worked_out_by_hand():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )


@given(P_VALUES)
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p_values):
    adjusted = holm(p_values)
    assert list(adjusted) == list(p_values)
    for name, p in p_values.items():
        assert p <= adjusted[name] <= min(1.0, len(p_values) * p)
        assert all(adjusted[name] <= adjusted[other] for other in p_values if p_values[other] > p)
    smallest = min(p_values, key=lambda name: p_values[name])
    assert adjusted[smallest] == min(1.0, len(p_values) * p_values[smallest])


@given(P_VALUES)
def test_what_was_not_tested_is_not_counted(p_values):
    assert holm({**p_values, "untested": None}) == {**holm(p_values), "untested": None}


def test_holm_seldom_finds_anything_where_nothing_is():
    tables = np.random.default_rng(1).random((2000, 11))
    found = [min(holm(dict(enumerate(table))).values()) < 0.05 for table in tables]
    assert np.mean(found) == pytest.approx(0.05, abs=0.015)
    assert np.mean((tables < 0.05).any(axis=1)) > 0.4  # uncorrected
