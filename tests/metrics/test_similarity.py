"""W2V-Sim is the cosine of averaged word vectors, as worked out by hand."""

from math import sqrt

import numpy as np
import pytest

from memgrow.errors import DataError
from memgrow.metrics.replies import w2v_similarity, words_to_look_up
from memgrow.text import read_vectors

ROWS = {"cat": (1, 0), "dog": (0, 1), "both": (3, 3), "north": (0, 2), "south": (0, -2), "zero": (0, 0)}


@pytest.fixture
def similarity(tmp_path):
    """The similarity of texts by a word2vec file in its binary format."""
    path = tmp_path / "vectors.bin"
    rows = b"".join(word.encode() + b" " + np.array(row, np.float32).tobytes() + b"\n" for word, row in ROWS.items())
    path.write_bytes(f"{len(ROWS)} 2\n".encode() + rows)

    def measure(*pairs):
        outputs, references = ([pair[side].split() for pair in pairs] for side in (0, 1))
        return w2v_similarity(outputs, references, read_vectors(path, words_to_look_up(outputs, references)))

    return measure


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


def test_what_cannot_be_compared_is_told(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("cat 1 0\n")
    with pytest.raises(DataError, match="1 outputs cannot be set beside 2 references"):
        w2v_similarity([["cat"]], [["cat"], ["cat"]], read_vectors(path, ["cat"]))
