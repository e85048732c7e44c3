"""How often the paper's test finds a difference between equal methods."""

import json

import numpy as np
import pytest

from memgrow.errors import DataError, SettingsError
from research.paper import false_positives as benchmark


def test_the_paper_test_finds_differences_between_equal_methods_far_too_often():
    """One-tailed at 0.05 in both directions promises 10 in 100, and at 0.01 two."""
    found = benchmark.paper_test_false_positives(trials=1000, examples=1000)
    strict, mild = found.rates
    assert (strict.level, mild.level) == (0.01, 0.05)
    assert 0.25 < mild.either < 0.35
    assert 0.09 < strict.either < 0.16
    assert mild.either == pytest.approx(mild.worse + mild.better)
    assert found.mcnemar < 0.06  # on the same answers


def test_more_subsets_of_the_same_examples_find_more_of_what_is_not_there():
    few, many = (
        benchmark.paper_test_false_positives(trials=500, subsets=subsets).rates[1].either for subsets in (10, 60)
    )
    assert many > few + 0.2


def test_with_endless_examples_the_subsets_are_independent_and_the_test_keeps_its_promise():
    found = benchmark.paper_test_false_positives(trials=400, examples=20_000)
    assert 0.05 < found.rates[1].either < 0.15


def test_models_that_differ_by_their_seeds_alone_fool_the_paper_test_more_often_still():
    same, spread = (
        benchmark.paper_test_false_positives(trials=1000, seed_spread=sd).rates[1].either for sd in (0.0, 0.015)
    )
    assert spread > same + 0.1


def test_the_seeds_of_a_method_are_tested_pair_by_pair():
    rows = np.random.default_rng(0).random((10, 500)) < 0.65
    found = benchmark.paper_test_between_seeds(rows)
    assert (found.seeds, found.examples, found.pairs) == (10, 500, 45)
    assert found.disagreement == pytest.approx(2 * 0.65 * 0.35, abs=0.02)
    assert found.rates[1].either > 0.2
    same = benchmark.paper_test_between_seeds(np.stack([rows[0]] * 3))
    assert (same.disagreement, same.mcnemar, [rate.either for rate in same.rates]) == (0, 0, [0, 0])


def test_what_was_found_can_be_written_as_json():
    rows = np.random.default_rng(0).random((3, 50)) < 0.6
    for found in (benchmark.paper_test_between_seeds(rows), benchmark.paper_test_false_positives(trials=5)):
        assert json.loads(json.dumps(found.to_json()))


def test_what_cannot_be_compared_is_refused_in_a_sentence():
    with pytest.raises(SettingsError, match=r"accuracy 0\.9 cannot disagree on a share of 0\.5"):
        benchmark.paper_test_false_positives(accuracy=0.9, disagreement=0.5)
    with pytest.raises(DataError, match="give at least two"):
        benchmark.paper_test_between_seeds([True, False])
