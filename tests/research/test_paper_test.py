"""The paper's test: the signed ranks against figures worked out by hand, and the arrows."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from research.common.paper_test import paper_test, signed_rank


@pytest.mark.parametrize(
    ("differences", "below", "above"),
    [
        ([1, 2, 3], 8 / 8, 1 / 8),
        ([-1, 2, 3], 7 / 8, 2 / 8),  # the positive ranks sum to 5; only 6 is more
        ([1, 1, -1], 7 / 8, 4 / 8),  # three ties of rank 2: two or three of them above zero
        ([0, 0, -4], 1 / 2, 2 / 2),
        ([0, 0, 0], 1, 1),
        ([], 1, 1),
    ],
)
def test_the_signed_ranks_are_those_worked_out_by_hand(differences, below, above):
    assert signed_rank(np.array(differences, dtype=np.int64)) == (below, above)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40, unique=True), st.randoms(use_true_random=False))
def test_without_ties_the_signed_ranks_agree_with_scipys_exact_ones(sizes, chance):
    differences = np.array([size * chance.choice((-1, 1)) for size in sizes])
    below, above = signed_rank(differences)
    assert below == pytest.approx(wilcoxon(differences, alternative="less", method="exact").pvalue)
    assert above == pytest.approx(wilcoxon(differences, alternative="greater", method="exact").pvalue)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=10))
def test_with_ties_the_signed_ranks_agree_with_trying_all_signs(differences):
    moved = np.array([one for one in differences if one])
    size = np.abs(moved)
    ranks = [float(np.mean(np.flatnonzero(np.sort(size) == one) + 1)) for one in size]
    signs = (np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved))) % 2
    sums, seen = signs @ np.array(ranks), sum(rank for rank, one in zip(ranks, moved, strict=True) if one > 0)
    assert signed_rank(np.array(differences)) == pytest.approx((np.mean(sums <= seen), np.mean(sums >= seen)))


def models(first: float, second: float, examples: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random(examples) < first, rng.random(examples) < second


def test_equal_models_get_no_arrow_and_no_warning():
    ours, _ = models(0.6, 0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = paper_test(ours, ours)
    assert (found.arrow, found.p_worse, found.p_better) == (None, 1.0, 1.0)


def test_arrows_point_to_where_the_other_model_is_and_double_where_p_is_smaller():
    ours, other = models(0.9, 0.5)
    assert paper_test(ours, other).arrow == "DOWN"
    assert paper_test(other, ours).arrow == "UP"
    assert paper_test(ours, other).p_worse == 1 / 2**10
    arrows = {paper_test(*models(0.65, 0.65, seed=seed)).arrow for seed in range(60)}
    assert arrows == {None, "down", "DOWN", "up", "UP"}


@given(st.integers(0, 2**32 - 1))
def test_turning_the_models_round_turns_the_test_round(seed):
    ours, other = models(0.6, 0.62, examples=300, seed=seed)
    there, back = paper_test(ours, other, seed), paper_test(other, ours, seed)
    assert (there.p_worse, there.p_better, there.ours, there.other) == (
        back.p_better,
        back.p_worse,
        back.other,
        back.ours,
    )
    turned = {"DOWN": "UP", "down": "up", "up": "down", "UP": "DOWN", None: None}
    assert back.arrow == turned[there.arrow]


def test_of_several_seeds_the_first_counts_as_the_paper_had_but_one():
    ours, other = models(0.65, 0.6)
    noise = models(0.1, 0.9, seed=1)
    assert paper_test(np.stack([ours, noise[0]]), np.stack([other, noise[1]])) == paper_test(ours, other)


def test_the_same_seed_draws_the_same_subsets_and_another_others():
    pair = models(0.65, 0.62)
    assert paper_test(*pair, seed=3) == paper_test(*pair, seed=3)
    assert len({paper_test(*pair, seed=seed).p_worse for seed in range(10)}) > 3


def test_what_was_found_can_be_written_as_json():
    rows = np.random.default_rng(0).random((2, 50)) < 0.6
    assert json.loads(json.dumps(paper_test(*rows).to_json()))
