"""Tests of significance: worked out by hand, beside scipy's, and by how often they err."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_rel, wilcoxon

from research.common.statistics import (
    holm,
    mcnemar,
    paired_over_examples,
    paired_over_seeds,
    sign_flip,
    signed_rank,
)
from research.paper.false_positives import between_seeds, simulated


def answers(only_first: int, only_second: int, both: int = 3) -> tuple[np.ndarray, np.ndarray]:
    kinds = np.repeat([0, 1, 2], [only_first, only_second, both])
    return kinds != 1, kinds != 0


def methods(seeds: int, examples: int, seed_spread: float, shift: float, rng: np.random.Generator):
    """Two methods that find examples hard in their own way each, and whose seeds are of different strength."""
    shared = rng.normal(0.8, 1.5, examples)
    rows = []
    for plus in (shift, 0.0):
        own = shared + rng.normal(0, 0.5, examples) + plus
        logits = own + rng.normal(0, seed_spread, (seeds, 1)) + rng.normal(0, 1, (seeds, examples))
        rows.append(rng.random((seeds, examples)) < 1 / (1 + np.exp(-logits)))
    return rows


def test_over_seeds_it_is_students_t_and_a_permutation():
    a, b = [0.7, 0.8, 0.75, 0.9], [0.6, 0.79, 0.7, 0.8]
    found = paired_over_seeds(a, b)
    assert found.p_t == pytest.approx(ttest_rel(a, b).pvalue)
    assert found.low < found.difference < found.high
    assert found.p_permutation == sign_flip(np.subtract(a, b)) == 2 / 2**4
    assert paired_over_seeds([0.5], [0.4]).p_t is None
    assert paired_over_seeds([0.5, 0.6], [0.5, 0.6]).p_t == 1
    assert paired_over_seeds([0.5, 0.75], [0.25, 0.5]).low is None  # no spread to judge by


def test_holm_is_that_worked_out_by_hand():
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "not tested": None})
    assert found == {"a": pytest.approx(0.03), "b": pytest.approx(0.06), "c": pytest.approx(0.06), "not tested": None}


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_binomial_test_of_a_fair_coin(first, second):
    expected = binomtest(first, first + second).pvalue if first + second else 1
    assert mcnemar(*answers(first, second)) == pytest.approx(expected)


@given(st.integers(1, 4), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_turning_the_methods_round_turns_all_figures_round(seeds, examples, seed):
    a, b = np.random.default_rng(seed).random((2, seeds, examples)) < 0.6
    there, back = paired_over_examples(a, b), paired_over_examples(b, a)
    assert (there.difference, there.p, there.p_mcnemar) == (-back.difference, back.p, back.p_mcnemar)


@pytest.mark.parametrize(("seeds", "seed_spread"), [(3, 0.0), (3, 0.4), (10, 0.1)])
def test_the_interval_holds_the_truth_as_often_as_it_says_whatever_varies_most(seeds, seed_spread):
    rng = np.random.default_rng(5)
    found = [paired_over_examples(*methods(seeds, 200, seed_spread, 0.0, rng)) for _ in range(400)]
    assert 0.92 < np.mean([one.low <= 0 <= one.high for one in found]) <= 1
    assert np.mean([one.p < 0.05 for one in found]) < 0.08


@given(st.lists(st.integers(-6, 6).filter(bool), min_size=1, max_size=9, unique_by=abs))
def test_the_papers_test_is_wilcoxons(differences):
    worse, better = signed_rank(np.array(differences))
    assert worse == pytest.approx(wilcoxon(differences, alternative="less", method="exact").pvalue)
    assert better == pytest.approx(wilcoxon(differences, alternative="greater", method="exact").pvalue)


def test_the_papers_test_finds_differences_between_equal_methods_far_too_often():
    """One-tailed at 0.05 in both directions promises 10 in 100, and at 0.01 two."""
    found = simulated(trials=1000, examples=1000)
    strict, mild = found["rates"]
    assert 0.25 < mild["either"] < 0.35
    assert 0.09 < strict["either"] < 0.16
    assert found["mcnemar"] < 0.06  # on the same answers
    more_subsets, more_spread = simulated(trials=500, subsets=60), simulated(trials=1000, seed_spread=0.015)
    assert more_subsets["rates"][1]["either"] > mild["either"] + 0.2
    assert more_spread["rates"][1]["either"] > mild["either"] + 0.1
    assert 0.05 < simulated(trials=400, examples=20_000)["rates"][1]["either"] < 0.15


def test_seeds_are_tested_against_each_other():
    rows = np.random.default_rng(0).random((4, 300)) < 0.65
    found = between_seeds(rows)
    assert (found["seeds"], found["examples"], found["pairs"]) == (4, 300, 6)
    assert between_seeds(np.stack([rows[0]] * 3))["disagreement"] == 0
