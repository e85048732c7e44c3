"""Metrics held against their definitions, and BLEU-2 against sacrebleu."""

from math import comb, exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from memgrow.data.vectors import read_vectors
from memgrow.errors import DataError
from memgrow.evaluation.metrics import (
    Confusion,
    bleu2,
    compare_counts,
    distinct,
    mcnemar,
    side_by_side,
    w2v_similarity,
)

TEXT = st.lists(st.sampled_from("abcd"), max_size=7)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8)
ROWS = {"cat": (1, 0), "dog": (0, 1), "both": (3, 3), "north": (0, 2), "south": (0, -2), "zero": (0, 0)}


def naive_f1(right, given, label):
    hits = sum(a == b == label for a, b in zip(right, given, strict=True))
    precision, recall = hits / max(given.count(label), 1), hits / max(right.count(label), 1)
    return precision, recall, 2 * precision * recall / ((precision + recall) or 1)


@pytest.mark.parametrize("seed", range(3))
def test_label_metrics_follow_their_definitions(seed):
    rng = np.random.default_rng(seed)
    right, given = rng.integers(0, 4, 60).tolist(), rng.integers(0, 3, 60).tolist()  # the last label is never given
    found = Confusion.of("abcd", right, given)
    assert found.accuracy == pytest.approx(np.mean(np.equal(right, given)))
    assert found.counts[2][1] == sum((a, b) == (2, 1) for a, b in zip(right, given, strict=True))
    for number, metrics in enumerate(found.by_label().values()):
        assert (metrics.precision, metrics.recall, metrics.f1) == pytest.approx(naive_f1(right, given, number))
    assert found.macro_f1 == pytest.approx(np.mean([naive_f1(right, given, label)[2] for label in range(4)]))


def test_labels_that_do_not_occur_are_left_out():
    found = Confusion.of(("a", "b", "c"), [0, 0, 2], [0, 2, 2])
    assert list(found.by_label()) == ["a", "c"]
    assert found.macro_f1 == pytest.approx(2 / 3)
    assert (found.baseline, found.most_frequent) == (pytest.approx(2 / 3), "a")


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (7, 2), (30, 30), (400, 330)])
def test_mcnemar_is_the_exact_binomial_test(first, second):
    tosses = first + second
    one_side = sum(comb(tosses, heads) for heads in range(min(first, second) + 1)) / 2**tosses
    assert mcnemar(first, second) == mcnemar(second, first) == pytest.approx(min(1.0, 2 * one_side))


def test_beyond_the_exact_test_the_normal_approximation_continues_it():
    assert mcnemar(5001, 5001) == 1.0
    assert mcnemar(5101, 4900) == pytest.approx(mcnemar(5100, 4900), rel=0.1)


def test_two_models_are_compared_by_the_examples_that_one_alone_gets_right():
    found = side_by_side([True, True, False, True], [True, False, False, False])
    assert (found.examples, found.only_first, found.only_second, found.difference) == (4, 2, 0, 0.5)
    assert found.low < found.difference < found.high
    rng, gain, examples = np.random.default_rng(0), 0.05, 80
    drawn = rng.multinomial(examples, (0.15, 0.15 - gain, 0.7 + gain), size=2000)
    covered = [(one := compare_counts(examples, a, b)).low <= gain <= one.high for a, b, _ in drawn]
    assert 0.93 <= np.mean(covered) <= 0.98


@given(PAIRS)
def test_bleu2_is_that_of_sacrebleu(pairs):
    outputs, references = zip(*pairs, strict=True)
    metric = BLEU(max_ngram_order=2, tokenize="none", effective_order=False, smooth_method="none", force=True)
    expected = metric.corpus_score([" ".join(one) for one in outputs], [[" ".join(one) for one in references]])
    assert bleu2(outputs, references) == pytest.approx(expected.score, abs=1e-9)


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


@pytest.fixture
def similarity(tmp_path):
    path = tmp_path / "vectors.bin"
    rows = b"".join(word.encode() + b" " + np.array(row, np.float32).tobytes() + b"\n" for word, row in ROWS.items())
    path.write_bytes(f"{len(ROWS)} 2\n".encode() + rows)

    def measure(*pairs):
        outputs, references = ([pair[side].split() for pair in pairs] for side in (0, 1))
        words = {word for text in (*outputs, *references) for word in text}
        return w2v_similarity(outputs, references, read_vectors(path, words))

    return measure


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        ("cat", "dog", 0),
        ("cat dog", "both", 1),  # (1/2, 1/2) and (3, 3)
        ("cat cat dog", "cat", 2 / sqrt(5)),
        ("north", "south", -1),
        ("north cat", "cat", 1 / sqrt(5)),  # vectors are averaged, not directions
        ("cat xyzzy", "cat", 1),
        ("xyzzy", "cat", 0),
        ("zero", "cat", 0),
        ("", "cat", 0),
    ],
)
def test_w2v_similarity_by_hand(similarity, output, reference, expected):
    assert similarity((output, reference), (output, reference)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Confusion.of(("a", "b"), [], []),
        lambda: side_by_side([True], [True, False]),
        lambda: bleu2([["a"], ["b"]], [["a"]]),
        lambda: bleu2([], []),
    ],
)
def test_inputs_without_a_metric_are_refused(wrong):
    with pytest.raises(DataError):
        wrong()
