"""Figures of labels and of two models side by side, held against their definitions."""

from math import comb

import numpy as np
import pytest

from memgrow.errors import DataError
from memgrow.metrics.confusion import Confusion, compare_counts, mcnemar, side_by_side


def naive_f1(right, given, label):
    hits = sum(a == b == label for a, b in zip(right, given, strict=True))
    precision, recall = hits / max(given.count(label), 1), hits / max(right.count(label), 1)
    return precision, recall, 2 * precision * recall / ((precision + recall) or 1)


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_their_definitions(seed):
    rng = np.random.default_rng(seed)
    right, given = rng.integers(0, 4, 60).tolist(), rng.integers(0, 3, 60).tolist()  # the last label is never given
    found = Confusion.of("abcd", right, given)
    assert found.accuracy == pytest.approx(np.mean(np.equal(right, given)))
    assert found.counts[2][1] == sum((a, b) == (2, 1) for a, b in zip(right, given, strict=True))
    for number, figures in enumerate(found.by_label().values()):
        assert (figures.precision, figures.recall, figures.f1) == pytest.approx(naive_f1(right, given, number))
    assert found.macro_f1 == pytest.approx(np.mean([naive_f1(right, given, label)[2] for label in range(4)]))


def test_a_label_that_nobody_has_and_nobody_gives_counts_for_nothing():
    found = Confusion.of(("a", "b", "c"), [0, 0, 2], [0, 2, 2])
    assert list(found.by_label()) == ["a", "c"]
    assert found.macro_f1 == pytest.approx(2 / 3)
    assert (found.baseline, found.most_frequent) == (pytest.approx(2 / 3), "a")


def test_no_examples_are_a_sentence():
    with pytest.raises(DataError, match="needs examples"):
        Confusion.of(("a", "b"), [], [])
    with pytest.raises(DataError, match="in pairs"):
        side_by_side([True], [True, False])


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (7, 2), (30, 30), (400, 330)])
def test_the_p_value_is_that_of_the_exact_binomial_test(first, second):
    tosses = first + second
    one_side = sum(comb(tosses, heads) for heads in range(min(first, second) + 1)) / 2**tosses
    assert mcnemar(first, second) == pytest.approx(min(1.0, 2 * one_side))
    assert mcnemar(second, first) == mcnemar(first, second)


def test_beyond_what_is_counted_exactly_the_normal_distribution_goes_on_without_a_jump():
    assert mcnemar(5001, 5002) == pytest.approx(1.0, abs=0.01)
    assert mcnemar(5001, 5001) == 1.0
    assert mcnemar(5101, 4900) == pytest.approx(mcnemar(5100, 4900), rel=0.1)


def test_two_models_are_compared_by_the_examples_that_one_alone_gets_right():
    found = side_by_side([True, True, False, True], [True, False, False, False])
    assert (found.examples, found.only_first, found.only_second, found.difference) == (4, 2, 0, 0.5)
    assert found.low < found.difference < found.high
    same = side_by_side([True, False], [True, False])
    assert (same.difference, same.p) == (0.0, 1.0)


def test_the_interval_has_the_truth_in_95_of_100_samples():
    rng, gain, examples = np.random.default_rng(0), 0.05, 80
    drawn = rng.multinomial(examples, (0.15, 0.15 - gain, 0.7 + gain), size=2000)
    inside = [(one := compare_counts(examples, a, b)).low <= gain <= one.high for a, b, _ in drawn]
    assert 0.93 <= np.mean(inside) <= 0.98
