"""Bags of words beside the methods of a comparison: what they see, and records that are kept as others are."""

from dataclasses import replace

import pytest

from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.experiments import bag_of_words
from memgrow.experiments.bag_of_words import AT_ONCE, IN_TURN, reference_records, tokens_of
from memgrow.experiments.comparison import Comparison
from memgrow.experiments.grid import Outcome
from memgrow.experiments.plan import Ledger
from memgrow.experiments.store import Store
from memgrow.report.comparison import compared_table, verdict

SEEDS = (3, 4)


@pytest.fixture(scope="module")
def stream():
    return synthetic_stream(3, 30, 9, 12)


@pytest.fixture(autouse=True)
def few_features(monkeypatch):
    monkeypatch.setattr(bag_of_words, "FEATURES", 2**10)


def made(stream, folder, seeds=SEEDS):
    return reference_records(Ledger.of(stream, Store(folder)), seeds)


def without_seconds(found):
    """Everything but what differs from one time to the next."""
    return {
        (name, seed, number): replace(record, stage=replace(record.stage, seconds=0.0))
        for name, by_seed in found.items()
        for seed, records in by_seed.items()
        for number, record in enumerate(records)
    }


def test_one_text_gives_words_and_neighbours_and_a_pair_tells_its_texts_apart():
    assert tokens_of(["good soup"]) == ["good", "soup", "good soup"]
    assert tokens_of(["good soup", "soup"]) == ["good", "soup", "good soup", "1|soup", "both|soup"]


def test_one_learns_in_turn_and_one_sees_all(stream, tmp_path):
    found = made(stream, tmp_path)
    assert [record.stage.learned for record in found[IN_TURN][3]] == [(name,) for name in stream.names]
    assert [record.stage.learned for record in found[AT_ONCE][3]] == [stream.names]
    for records in (*found[IN_TURN].values(), *found[AT_ONCE].values()):
        for record in records:
            assert {name: len(right) for name, right in record.test.items()} == dict.fromkeys(stream.names, 12)


def test_a_later_domain_changes_nothing_of_an_earlier_stage_and_another_seed_may(stream, tmp_path):
    other = Stream((*stream[:2], replace(stream[2], train=stream[2].train[:9])))
    one, two = (made(some, tmp_path / name)[IN_TURN] for some, name in ((stream, "a"), (other, "b")))
    for seed in SEEDS:
        assert [record.test for record in one[seed][:2]] == [record.test for record in two[seed][:2]]
    assert [record.stage.parameters for record in one[3]] == sorted(record.stage.parameters for record in one[3])


def test_the_second_time_records_are_those_of_the_store(stream, tmp_path, monkeypatch):
    first = made(stream, tmp_path)
    assert without_seconds(made(stream, tmp_path / "other")) == without_seconds(first)
    for name, reference in bag_of_words.REFERENCES.items():
        monkeypatch.setitem(bag_of_words.REFERENCES, name, replace(reference, learn=None))
    second = made(stream, tmp_path)
    assert without_seconds(second) == without_seconds(first)
    assert [list(record.test) for record in second[IN_TURN][3]] == [list(stream.names)] * 3


def test_other_test_examples_are_answered_anew(stream, tmp_path):
    made(stream, tmp_path)
    cut = Stream(replace(domain, test=domain.test[:5]) for domain in stream)
    found = made(cut, tmp_path)
    assert {len(right) for record in found[IN_TURN][3] for right in record.test.values()} == {5}


def test_where_all_have_one_label_there_is_nothing_to_learn(tmp_path):
    texts = tuple(Example(f"text {number}", label="same") for number in range(4))
    assert made(Stream(Domain(name, texts, texts, texts) for name in "ab"), tmp_path) == {}


def test_a_domain_may_have_one_label_and_no_validation_part(tmp_path):
    one = tuple(Example(f"good {number}", label="yes") for number in range(4))
    two = tuple(Example(f"bad {number}", label="no") for number in range(4))
    found = made(Stream([Domain("a", one, (), one), Domain("b", two, (), two)]), tmp_path)
    assert found[AT_ONCE][3][0].test == {"a": (True,) * 4, "b": (True,) * 4}


def test_they_stand_in_the_table_among_those_that_see_as_much(stream, tmp_path):
    comparison = Comparison.of({}, Outcome({}, ()), references=made(stream, tmp_path))
    assert comparison.order == (IN_TURN, AT_ONCE)
    table = compared_table(comparison, len(SEEDS))
    assert list(table.lines_above) == [1]
    assert verdict(comparison) == ""
