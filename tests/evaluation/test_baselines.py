"""Bag-of-words baselines: what they see, and that seeds repeat."""

import pytest

from memgrow.data import Domain, Example, Stream
from memgrow.evaluation import baselines
from memgrow.evaluation.baselines import features_of, run_baseline


@pytest.fixture(autouse=True)
def few_features(monkeypatch):
    monkeypatch.setattr(baselines, "FEATURES", 2**10)


def domain(name: str, good: str, bad: str) -> Domain:
    rows = [
        Example(f"{word} {name} {number}", label=label)
        for number in range(12)
        for word, label in ((good, "good"), (bad, "bad"))
    ]
    return Domain(name, rows, rows[:4], rows[:6])


STREAM = Stream([domain("books", "fine", "dull"), domain("films", "dull", "fine")])  # the second contradicts the first


def test_features_are_words_bigrams_and_what_both_texts_share():
    assert features_of(Example("a fine lamp")) == ["a", "fine", "lamp", "a fine", "fine lamp"]
    assert "both|lamp" in features_of(Example("a lamp", "the lamp"))
    assert "1|the" in features_of(Example("a lamp", "the lamp"))


def test_in_turn_the_second_domain_replaces_what_the_first_taught():
    matrix, parameters, seconds = run_baseline("bag of words", STREAM, 0)
    assert [row.learned for row in matrix.rows] == [("books",), ("films",)]
    assert matrix.score(0, "books") == matrix.score(1, "films") == 1
    assert matrix.score(0, "films") < 1
    assert parameters > 0
    assert seconds >= 0
    assert run_baseline("bag of words", STREAM, 0)[0] == matrix


def test_all_data_is_learned_in_one_stage():
    matrix, _, _ = run_baseline("bag, all data", STREAM, 0)
    assert [row.learned for row in matrix.rows] == [("books", "films")]
    assert matrix.average() == 1
