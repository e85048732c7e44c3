"""BLEU-2 by hand and against sacrebleu, distinct-n, perplexity and W2V-Sim as worked out by hand."""

from math import e, exp, inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from memgrow.data.vectors import read_vectors
from memgrow.errors import DataError
from memgrow.metrics.replies import bleu2_counts, distinct, perplexity, w2v_similarity, words_to_look_up

TEXT = st.lists(st.sampled_from("abcd"), max_size=7)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8)


def split(*texts):
    return [text.split() for text in texts]


OUTPUTS = split("the the cat sat on it", "oh no")
REFERENCES = split("the cat sat on the mat", "no")


ROWS = {"cat": (1, 0), "dog": (0, 1), "both": (3, 3), "north": (0, 2), "south": (0, -2), "zero": (0, 0)}


@pytest.fixture
def vectors(tmp_path):
    """A word2vec file in its binary format."""
    path = tmp_path / "vectors.bin"
    rows = b"".join(word.encode() + b" " + np.array(row, np.float32).tobytes() + b"\n" for word, row in ROWS.items())
    path.write_bytes(f"{len(ROWS)} 2\n".encode() + rows)
    return path


@pytest.fixture
def similarity(vectors):
    """The similarity of texts by that file."""

    def measure(*pairs):
        outputs, references = ([pair[side].split() for pair in pairs] for side in (0, 1))
        return w2v_similarity(outputs, references, read_vectors(vectors, words_to_look_up(outputs, references)))

    return measure


def sacrebleu(outputs, references):
    """The score by sacrebleu; the words are split already, so it is to split at spaces alone."""
    metric = BLEU(max_ngram_order=2, tokenize="none", effective_order=False, smooth_method="none", force=True)
    return metric.corpus_score([" ".join(one) for one in outputs], [[" ".join(one) for one in references]])


def score(outputs, references):
    return bleu2_counts(outputs, references).score()


def test_bleu2_is_the_one_worked_out_by_hand():
    # the (twice in both), cat, sat, on; no. Pairs: "the cat", "cat sat", "sat on".
    matches, pairs = 5 + 1, 3 + 0
    expected = 100 * sqrt(matches / 8 * pairs / 6)  # 8 words against 7: not too short
    assert score(OUTPUTS, REFERENCES) == pytest.approx(expected)


def test_outputs_that_are_too_short_are_penalised():
    # 2 of 2 words and 1 of 1 pairs are right, with 2 words where the reference has 5.
    assert score(split("a b"), split("a b c d e")) == pytest.approx(100 * exp(1 - 5 / 2))


def test_a_word_counts_at_most_as_often_as_the_reference_has_it():
    counts = bleu2_counts(split("a a a a"), split("a b a"))
    assert counts.matches.tolist() == [[2, 0]]
    assert counts.totals.tolist() == [[4, 3]]


def test_without_a_common_pair_of_words_bleu2_is_zero():
    assert score(split("b a", "c"), split("a b", "c")) == 0.0


def test_the_same_is_perfect_and_empty_outputs_are_worth_nothing():
    assert score(REFERENCES, REFERENCES) == pytest.approx(100)
    assert score([[], []], REFERENCES) == 0.0


@given(PAIRS)
def test_counts_of_examples_give_the_score_of_sacrebleu(pairs):
    outputs, references = zip(*pairs, strict=True)
    whole = sacrebleu(outputs, references)
    counts = bleu2_counts(outputs, references)
    assert counts.score() == pytest.approx(whole.score, abs=1e-9)
    assert counts.totals[:, 0].sum() == whole.sys_len
    assert counts.references.sum() == whole.ref_len


@given(PAIRS, st.data())
def test_a_set_drawn_anew_has_the_score_that_its_texts_have(pairs, data):
    drawn = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=10))
    outputs, references = zip(*pairs, strict=True)
    weights = np.bincount(drawn, minlength=len(pairs))
    expected = sacrebleu([outputs[i] for i in drawn], [references[i] for i in drawn]).score
    found = bleu2_counts(outputs, references).scores([weights, weights / len(drawn)])
    assert found == pytest.approx([expected, expected], abs=1e-9)


def test_what_cannot_be_compared_is_refused_by_every_measure(vectors):
    for measure in (bleu2_counts, lambda *texts: w2v_similarity(*texts, read_vectors(vectors, ["cat"]))):
        with pytest.raises(DataError, match="2 outputs cannot be set beside 1 references"):
            measure([["a"], ["b"]], [["a"]])
        with pytest.raises(DataError, match="no text to measure"):
            measure([], [])
        with pytest.raises(DataError, match="must be a list of words, not a string"):
            measure(["a b"], [["a", "b"]])
    with pytest.raises(DataError, match="no text to measure"):
        distinct([], 1)
    with pytest.raises(DataError, match="list of words"):
        distinct(["a b"], 1)


def test_distinct_is_the_share_of_different_words_and_pairs():
    # Words: a b a b c a: 3 of 6. Pairs within a reply: ab ba, bc ca: 4 of 4.
    assert distinct(split("a b a", "b c a"), 1) == 3 / 6
    assert distinct(split("a b a", "b c a"), 2) == 4 / 4


def test_the_same_reply_again_is_not_varied():
    assert distinct(split(*["i do not know"] * 10), 1) == 4 / 40
    assert distinct(split(*["i do not know"] * 10), 2) == 3 / 30


def test_empty_replies_add_nothing_to_distinct():
    assert distinct([["a", "b"], []], 1) == distinct([["a", "b"], []], 2) == 1
    assert distinct([[]], 1) == distinct([[]], 2) == 0


def test_pairs_do_not_reach_from_one_reply_into_the_next():
    assert distinct(split("a", "b"), 2) == 0
    assert distinct(split("a b", "b a"), 2) == 1


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


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        ("cat", "cat", 1),
        ("cat", "dog", 0),
        ("cat dog", "both", 1),  # (1/2, 1/2) and (3, 3)
        ("cat", "both", 1 / sqrt(2)),
        ("cat cat dog", "cat", 2 / sqrt(5)),  # (2/3, 1/3): a word counts as often as it is there
        ("north", "south", -1),
        ("north cat", "cat", 1 / sqrt(5)),  # (1/2, 1): averages are of the vectors as they are, not of directions
    ],
)
def test_a_similarity_is_the_one_worked_out_by_hand(similarity, output, reference, expected):
    found = similarity((output, reference))
    assert found.each == pytest.approx([expected])
    assert found.mean == pytest.approx(expected)


def test_words_without_a_vector_are_left_out_and_their_share_is_told(similarity):
    found = similarity(("cat xyzzy", "both plugh cat plugh"), ("dog", "dog"))
    assert found.each == pytest.approx([4 / sqrt(16 + 9), 1])  # (1, 0) against (2, 1.5)
    assert found.output_coverage == pytest.approx(2 / 3)
    assert found.reference_coverage == pytest.approx(3 / 5)


@pytest.mark.parametrize(
    ("output", "reference"),
    [("", "cat"), ("cat", ""), ("xyzzy", "cat"), ("xyzzy", "xyzzy"), ("zero", "cat"), ("north south", "cat")],
)
def test_texts_without_anything_to_compare_have_no_similarity(similarity, output, reference):
    found = similarity((output, reference), ("cat", "cat"))
    assert found.each.tolist() == [0, 1]
    assert found.mean == 0.5


def test_a_word_is_found_in_another_case_if_it_must_be(similarity):
    assert similarity(("Cat", "CAT")).mean == pytest.approx(1)


def test_outputs_that_are_all_empty_are_covered_by_nothing(similarity):
    found = similarity(("", "cat"))
    assert (found.mean, found.output_coverage, found.reference_coverage) == (0, 0, 1)
    assert found.to_json() == {"mean": 0.0, "output_coverage": 0.0, "reference_coverage": 1.0}


def test_the_words_to_look_up_are_each_named_once():
    assert words_to_look_up([["a", "b"], []], [["b", "c"]]) == ["a", "b", "c"]
