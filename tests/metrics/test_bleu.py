"""BLEU-2 is what the paper defines, as worked out by hand and as sacrebleu has it, for whole sets and drawn ones."""

import json
import sys
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow.errors import DataError, SettingsError
from memgrow.metrics.replies import bleu2, bleu2_counts

TEXT = st.lists(st.sampled_from("abcd"), max_size=7)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8)


def split(*texts):
    return [text.split() for text in texts]


OUTPUTS = split("the the cat sat on it", "oh no")
REFERENCES = split("the cat sat on the mat", "no")


def test_a_score_is_the_one_worked_out_by_hand():
    # the (twice in both), cat, sat, on; no. Pairs: "the cat", "cat sat", "sat on".
    matches, pairs = 5 + 1, 3 + 0
    expected = 100 * sqrt(matches / 8 * pairs / 6)  # 8 words against 7: not too short
    found = bleu2(OUTPUTS, REFERENCES)
    assert found.score == pytest.approx(expected)
    assert found.precisions == pytest.approx((100 * 6 / 8, 100 * 3 / 6))
    assert (found.brevity_penalty, found.output_words, found.reference_words) == (1.0, 8, 7)
    assert bleu2_counts(OUTPUTS, REFERENCES).score() == pytest.approx(expected)


def test_outputs_that_are_too_short_are_penalised():
    # 2 of 2 words and 1 of 1 pairs are right, with 2 words where the reference has 5.
    outputs, references = split("a b"), split("a b c d e")
    expected = 100 * exp(1 - 5 / 2)
    assert bleu2(outputs, references).score == pytest.approx(expected)
    assert bleu2_counts(outputs, references).score() == pytest.approx(expected)


def test_a_word_counts_at_most_as_often_as_the_reference_has_it():
    counts = bleu2_counts(split("a a a a"), split("a b a"))
    assert counts.matches.tolist() == [[2, 0]]
    assert counts.totals.tolist() == [[4, 3]]


def test_without_a_common_pair_of_words_the_score_is_nothing():
    outputs, references = split("b a", "c"), split("a b", "c")
    assert bleu2(outputs, references).score == bleu2_counts(outputs, references).score() == 0.0


def test_the_same_is_perfect_and_empty_outputs_are_worth_nothing():
    assert bleu2(REFERENCES, REFERENCES).score == pytest.approx(100)
    assert bleu2([[], []], REFERENCES).score == bleu2_counts([[], []], REFERENCES).score() == 0.0


@given(PAIRS)
def test_counts_of_examples_give_the_score_of_sacrebleu(pairs):
    outputs, references = zip(*pairs, strict=True)
    whole = bleu2(outputs, references)
    counts = bleu2_counts(outputs, references)
    assert counts.score() == pytest.approx(whole.score, abs=1e-9)
    assert counts.totals[:, 0].sum() == whole.output_words
    assert counts.references.sum() == whole.reference_words


@given(PAIRS, st.data())
def test_a_set_drawn_anew_has_the_score_that_its_texts_have(pairs, data):
    drawn = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=10))
    outputs, references = zip(*pairs, strict=True)
    weights = np.bincount(drawn, minlength=len(pairs))
    expected = bleu2([outputs[i] for i in drawn], [references[i] for i in drawn]).score
    found = bleu2_counts(outputs, references).scores([weights, weights / len(drawn)])
    assert found == pytest.approx([expected, expected], abs=1e-9)


def test_the_signature_says_how_it_was_made(recwarn):
    found = bleu2(split("a b ."), split("a b ."))
    assert "tok:none" in found.signature
    assert "smooth:none" in found.signature
    assert "eff:no" in found.signature
    assert "version:" in found.signature
    assert found.max_order == 2
    assert json.loads(json.dumps(found.to_json()))["signature"] == found.signature
    assert not recwarn


def test_what_cannot_be_compared_is_told():
    with pytest.raises(DataError, match="2 outputs cannot be set beside 1 references"):
        bleu2_counts([["a"], ["b"]], [["a"]])
    with pytest.raises(DataError, match="no text to measure"):
        bleu2([], [])
    with pytest.raises(DataError, match="must be a list of words, not a string"):
        bleu2(["a b"], [["a", "b"]])


def test_without_sacrebleu_it_is_said_how_to_have_it_and_counts_still_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(SettingsError, match=r"memgrow\[dialogue\]"):
        bleu2(OUTPUTS, REFERENCES)
    assert bleu2_counts(OUTPUTS, REFERENCES).score() > 0
