"""Methods compared over seeds and examples: McNemar by hand, the bootstrap beside a plain loop, coverage."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from memgrow.errors import DataError
from research.common.seeds_and_examples import crossed_bootstrap, mcnemar, paired_over_examples


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


def test_mcnemar_is_that_worked_out_by_hand():
    assert mcnemar(*answers(1, 5)).p == 2 * (1 + 6) / 2**6
    assert mcnemar(*answers(0, 0)).p == 1
    assert mcnemar(*answers(2, 2)).p == 1
    found = mcnemar(*answers(5, 1))
    assert (found.only_first, found.only_second) == (5, 1)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_binomial_test_of_a_fair_coin(first, second):
    p = mcnemar(*answers(first, second)).p
    assert p == pytest.approx(binomtest(first, first + second).pvalue if first + second else 1)


def test_mcnemar_bears_more_examples_than_floats_do():
    assert 0 < mcnemar(*answers(2400, 1600)).p < 1e-30
    assert mcnemar(*answers(1500, 1490)).p > 0.8


def test_the_bootstrap_agrees_with_a_plain_loop_over_seeds_and_examples():
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (4, 1)) + rng.normal(0, 2, (1, 30)) + rng.normal(0, 1, (4, 30))
    fast = crossed_bootstrap(values, 20_000, rng)
    plain = [values[np.ix_(rng.integers(0, 4, 4), rng.integers(0, 30, 30))].mean() for _ in range(20_000)]
    assert fast.shape == (20_000,)
    assert np.quantile(fast, (0.025, 0.25, 0.5, 0.75, 0.975)) == pytest.approx(
        np.quantile(plain, (0.025, 0.25, 0.5, 0.75, 0.975)), abs=0.05
    )


def test_a_bootstrap_in_blocks_has_as_many_resamples_as_asked_for():
    assert crossed_bootstrap(np.ones((2, 150_000)), 3, np.random.default_rng(0)) == pytest.approx(np.ones(3))


def test_with_one_seed_only_examples_vary():
    a, b = answers(20, 10, both=70)
    found = paired_over_examples(a, b)
    differences = a.astype(float) - b
    assert found.difference == pytest.approx(0.1)
    assert found.error_seeds is None
    assert found.error == found.error_examples == pytest.approx(differences.std(ddof=1) / 10)
    # A bootstrap of this many examples is near the normal interval.
    assert (found.boot_low, found.boot_high) == pytest.approx(
        (0.1 - 1.96 * found.error, 0.1 + 1.96 * found.error), abs=0.02
    )


def test_the_errors_are_those_of_seeds_of_examples_and_of_both_without_the_noise_counted_twice():
    found = paired_over_examples([[1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]], np.zeros((3, 4)), resamples=10)
    # Means of seeds 1, 1/2, 1/4, of examples 1/3, 1/3, 2/3, 1; the squares of what is left over sum to 5/6.
    from_seeds, from_examples, noise = (7 / 48) / 3, (11 / 108) / 4, (5 / 6) / 6 / 12
    assert found.error_seeds == pytest.approx(np.sqrt(from_seeds))
    assert found.error_examples == pytest.approx(np.sqrt(from_examples))
    assert found.error == pytest.approx(np.sqrt(from_seeds + from_examples - noise)) == 1 / 4


def test_equal_methods_differ_by_nothing():
    a = np.random.default_rng(0).random((3, 40)) < 0.6
    found = paired_over_examples(a, a)
    assert (found.difference, found.boot_low, found.boot_high, found.p, found.mcnemar.p) == (0, 0, 0, 1, 1)


@given(st.integers(1, 4), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_turning_the_methods_round_turns_all_figures_round(seeds, examples, seed):
    a, b = np.random.default_rng(seed).random((2, seeds, examples)) < 0.6
    there, back = (paired_over_examples(*pair, resamples=200) for pair in ((a, b), (b, a)))
    assert there.difference == -back.difference
    assert (there.boot_low, there.boot_high) == pytest.approx((-back.boot_high, -back.boot_low))
    assert there.p == back.p
    assert there.mcnemar.p == back.mcnemar.p


@pytest.mark.parametrize(
    ("seeds", "seed_spread"), [(3, 0.0), (3, 0.4), (10, 0.1)], ids=["few alike", "few apart", "ten"]
)
def test_the_interval_holds_the_truth_as_often_as_it_says_whatever_varies_most(seeds, seed_spread):
    rng = np.random.default_rng(5)
    found = [paired_over_examples(*methods(seeds, 200, seed_spread, 0.0, rng), resamples=2) for _ in range(400)]
    assert 0.92 < np.mean([one.low <= 0 <= one.high for one in found]) <= 1
    assert np.mean([one.p < 0.05 for one in found]) < 0.08


def test_the_bootstraps_interval_holds_the_truth_with_ten_seeds():
    rng = np.random.default_rng(6)
    found = [paired_over_examples(*methods(10, 200, 0.2, 0.0, rng), resamples=400) for _ in range(200)]
    assert np.mean([one.boot_low <= 0 <= one.boot_high for one in found]) > 0.92


def test_mcnemar_is_of_the_first_seed_alone():
    a, b = methods(3, 50, 0.1, 0.2, np.random.default_rng(9))
    assert paired_over_examples(a, b, resamples=2).mcnemar == mcnemar(a[0], b[0]) != mcnemar(a[2], b[2])


def test_a_real_difference_is_found_over_seeds_and_examples():
    found = paired_over_examples(*methods(10, 1000, 0.1, 0.5, np.random.default_rng(7)))
    assert found.p < 0.01
    assert found.boot_low > 0
    assert found.low > 0


def test_the_same_seed_gives_the_same_interval():
    a, b = methods(3, 100, 0.1, 0.2, np.random.default_rng(8))
    assert paired_over_examples(a, b, 1) == paired_over_examples(a, b, 1)
    assert paired_over_examples(a, b, 1).boot_low != paired_over_examples(a, b, 2).boot_low


def test_what_is_not_correctness_is_refused_in_a_sentence():
    right = np.ones((2, 5), dtype=bool)
    with pytest.raises(DataError, match="2 seeds x 5 examples and 1 seeds x 5 examples"):
        paired_over_examples(right, right[:1])
    with pytest.raises(DataError, match="other than true and false"):
        paired_over_examples(right, right * 0.5)
    with pytest.raises(DataError, match=r"shape \(1, 2, 5\)"):
        paired_over_examples(right[None], right)


def test_what_was_found_can_be_written_as_json():
    for shape in ((1, 1), (1, 9), (4, 9)):
        found = paired_over_examples(np.ones(shape), np.zeros(shape), resamples=10)
        assert json.loads(json.dumps(found.to_json(), allow_nan=False)) == found.to_json()
