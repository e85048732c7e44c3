"""Metrics of replies held against their definitions, and BLEU-2 against sacrebleu."""

from math import exp, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from memgrow.evaluation.replies import bleu2, distinct

TEXT = st.lists(st.sampled_from("abcd"), max_size=7)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8)


@given(PAIRS)
def test_bleu2_is_that_of_sacrebleu(pairs):
    outputs, references = zip(*pairs, strict=True)
    metric = BLEU(max_ngram_order=2, tokenize="none", effective_order=False, smooth_method="none", force=True)
    expected = metric.corpus_score([" ".join(one) for one in outputs], [[" ".join(one) for one in references]]).score
    assert bleu2(outputs, references) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        ("the the cat sat on it", "the cat sat on the mat", 100 * sqrt(5 / 6 * 3 / 5)),
        ("a b", "a b c d e", 100 * exp(1 - 5 / 2)),  # too short
        ("b a", "a b", 0.0),  # no common bigram, no smoothing
        ("", "a b", 0.0),
    ],
)
def test_bleu2_by_hand(output, reference, expected):
    assert bleu2([output.split()], [reference.split()]) == pytest.approx(expected)


def test_distinct_is_the_share_of_different_ngrams():
    assert distinct([["a", "b", "a"], ["b", "c", "a"]], 1) == 3 / 6
    assert distinct([["a", "b", "a"], ["b", "c", "a"]], 2) == 4 / 4
    assert distinct([[]], 1) == 0
