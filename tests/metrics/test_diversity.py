"""Distinct-1 and -2, lengths and perplexity, as worked out by hand."""

from math import e, exp, inf, log

import numpy as np
import pytest

from memgrow.errors import DataError
from memgrow.metrics.replies import distinct, diversity, perplexity


def split(*texts):
    return [text.split() for text in texts]


def test_shares_and_lengths_are_those_worked_out_by_hand():
    # Words: a b a b c a: 3 of 6. Pairs within a reply: ab ba, bc ca: 4 of 4.
    found = diversity(split("a b a", "b c a"))
    assert (found.distinct_1, found.distinct_2, found.mean_length) == (3 / 6, 4 / 4, 3)
    assert found.to_json() == {"distinct_1": 0.5, "distinct_2": 1.0, "mean_length": 3.0}


def test_the_same_reply_again_is_not_varied():
    assert diversity(split(*["i do not know"] * 10)).distinct_1 == 4 / 40
    assert diversity(split(*["i do not know"] * 10)).distinct_2 == 3 / 30


def test_pairs_do_not_reach_from_one_reply_into_the_next():
    assert distinct(split("a", "b"), 2) == 0
    assert distinct(split("a b", "b a"), 2) == 1


def test_empty_replies_count_for_the_length_alone():
    found = diversity([["a", "b"], []])
    assert (found.distinct_1, found.distinct_2, found.mean_length) == (1, 1, 1)
    assert diversity([[]]).to_json() == {"distinct_1": 0.0, "distinct_2": 0.0, "mean_length": 0.0}


def test_nothing_at_all_or_an_unsplit_text_is_refused():
    with pytest.raises(DataError, match="no text to measure"):
        diversity([])
    with pytest.raises(DataError, match="list of words"):
        diversity(["a b"])


def test_perplexity_is_that_of_the_mean_loss_over_tokens():
    assert perplexity(0, 5) == 1
    assert perplexity(12.0, 12) == pytest.approx(e)
    assert perplexity(7 * log(50), 7) == pytest.approx(50)  # as sure as among fifty


def test_perplexity_of_examples_weighs_each_by_its_tokens():
    assert perplexity([2.0, 9.0], [1, 9]) == pytest.approx(exp(11 / 10))
    assert perplexity(np.array([2.0, 9.0]), np.array([1, 9])) == perplexity(11.0, 10)


def test_a_loss_beyond_what_floats_hold_is_infinite():
    assert perplexity(1e6, 1) == inf
    assert perplexity(inf, 3) == inf


@pytest.mark.parametrize(("losses", "tokens"), [(1.0, 0), (-1.0, 3), (float("nan"), 3), ([1.0, 2.0], [3]), ([], [])])
def test_losses_that_make_no_sense_are_refused(losses, tokens):
    with pytest.raises(DataError, match="no perplexity follows"):
        perplexity(losses, tokens)
