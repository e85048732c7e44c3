"""Whole tables against a row of theirs, and the correction for many comparisons."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow.errors import DataError, SettingsError
from memgrow.metrics.significance import compare_rows, holm, paired_over_seeds, paper_test

P_VALUES = st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    ours = rng.random((10, 800)) < 0.65
    flipped = rng.random((10, 800))
    return {
        "ours": ours,
        "same": ours.copy(),
        "much worse": ours & (flipped > 0.15),
        "a little worse": ours & (flipped > 0.01),
        "better": (ours | (flipped > 0.85))[:6],
        "noise": rng.random((12, 800)) < 0.65,
    }


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


def test_every_row_but_the_reference_is_compared_with_it(rows):
    found = compare_rows("ours", rows, resamples=200)
    assert list(found) == [name for name in rows if name != "ours"]
    assert {one.reference for one in found.values()} == {"ours"}


def test_differences_are_below_zero_where_the_row_is_worse(rows):
    found = compare_rows("ours", rows, resamples=500)
    worse, better = found["much worse"], found["better"]
    assert worse.over_seeds.high < 0
    assert worse.over_examples.boot_high < 0
    assert worse.paper.arrow == "DOWN"
    assert set(worse.arrows) == {"DOWN"}
    assert better.over_seeds.low > 0
    assert better.paper.arrow == "UP"
    assert (
        max(worse.adjusted.p_t, worse.adjusted.p_permutation, worse.adjusted.p_crossed, worse.adjusted.p_mcnemar) < 0.05
    )
    assert worse.accuracy.mean - worse.reference_accuracy.mean == pytest.approx(worse.over_seeds.difference)


def test_the_same_row_again_is_no_different(rows):
    same = compare_rows("ours", rows, resamples=200)["same"]
    assert same.paper.arrow is None
    assert same.over_seeds.difference == 0
    assert (same.adjusted.p_t, same.adjusted.p_permutation, same.adjusted.p_crossed, same.adjusted.p_mcnemar) == (
        1,
    ) * 4


def test_rows_with_fewer_or_more_seeds_are_compared_on_the_common_ones(rows):
    found = compare_rows("ours", rows, resamples=200)
    assert found["better"].over_seeds == paired_over_seeds(rows["better"].mean(1), rows["ours"][:6].mean(1))
    assert len(found["better"].arrows) == found["better"].over_examples.seeds == 6
    assert found["noise"].over_seeds.n == 10


def test_the_paper_test_of_a_row_is_that_of_the_first_seed_and_each_seed_has_an_arrow(rows):
    noise = compare_rows("ours", rows, resamples=200)["noise"]
    assert noise.paper == paper_test(rows["ours"][0], rows["noise"][0])
    assert noise.arrows[0] == noise.paper.arrow
    assert len(set(noise.arrows)) > 1  # what the paper's arrow says hangs on the seed


def test_holm_counts_the_rows_of_the_table(rows):
    alone = compare_rows("ours", {name: rows[name] for name in ("ours", "much worse")}, resamples=200)
    among = compare_rows("ours", rows, resamples=200)
    raw = among["much worse"].over_seeds.p_t
    assert alone["much worse"].adjusted.p_t == raw
    assert raw < among["much worse"].adjusted.p_t <= 5 * raw


def test_one_seed_of_each_is_enough_for_what_one_seed_can_tell(rows):
    found = compare_rows("ours", {name: row[0] for name, row in rows.items()}, resamples=200)["much worse"]
    assert found.over_seeds.p_t is None
    assert found.adjusted.p_t is None
    assert found.adjusted.p_mcnemar < 0.05


def test_a_table_of_comparisons_can_be_written_as_json(rows):
    found = compare_rows("ours", rows, resamples=50)
    assert json.loads(json.dumps({name: one.to_json() for name, one in found.items()}, allow_nan=False))


def test_rows_that_cannot_be_compared_are_refused_in_a_sentence(rows):
    with pytest.raises(SettingsError, match="no row 'theirs'"):
        compare_rows("theirs", rows)
    with pytest.raises(DataError, match="'short' was tested on 10 examples and 'ours' on 800"):
        compare_rows("ours", {"ours": rows["ours"], "short": rows["ours"][:, :10]})
