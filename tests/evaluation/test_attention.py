"""Whose slots the texts of a domain read: batches give what one text after another gives."""

from dataclasses import replace
from statistics import fmean

import pytest

from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.evaluation.attention import MemoryUse, measure_attention
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.report.reading import reading_shares


@pytest.fixture(scope="module")
def learner(stream, tiny, short):
    learner = Learner.create("F+M+V", model=tiny, training=replace(short, epochs=1), device="cpu")
    learner.learn(stream[:2])
    return learner


def test_shares_are_those_of_the_texts_one_by_one_each_by_its_length(learner, stream):
    use = measure_attention(learner, stream)
    for domain in stream:
        words = [sum(map(len, learner.tokens(example))) for example in domain.test]
        read = [reading_shares(learner, example) for example in domain.test]
        for owner in ("kitchen", "harbour"):
            each = [count * fmean(bank[owner] for bank in banks) for count, banks in zip(words, read, strict=True)]
            assert use.shares[domain.name][owner] == pytest.approx(sum(each) / sum(words), abs=1e-5)
    assert use.slots == {"kitchen": 4, "harbour": 4}
    assert use.texts == {domain.name: 24 for domain in stream}


def test_the_most_read_slots_come_first_and_belong_to_who_brought_them(learner, stream):
    slots = measure_attention(learner, stream).most_read
    means = [one.mean for one in slots]
    assert means == sorted(means, reverse=True)
    assert means[0] > slots[0].even
    assert all(one.domain == ("kitchen" if one.slot <= 4 else "harbour") for one in slots)


def test_at_most_so_many_texts_are_read_and_the_figures_survive_json(learner, stream):
    use = measure_attention(learner, stream, texts=5)
    assert set(use.texts.values()) == {5}
    assert MemoryUse.from_json(use.to_json()) == use


def test_messages_and_replies_are_read_together(short):
    stream = synthetic_dialogue(train=40, validation=8, test=8)
    model = ModelSettings(cell="gru", embedding=6, hidden=8, slots=4, bidirectional=False)
    learner = Learner.create("F+M+V", model=model, training=replace(short, epochs=1), device="cpu")
    learner.learn(stream)
    use = measure_attention(learner, stream)
    for shares in use.shares.values():
        assert sum(shares.values()) == pytest.approx(1)
    assert {one.bank for one in use.most_read} <= {"message, bank 1", "reply, bank 1"}


def test_a_model_without_slots_has_nothing_to_tell(stream, tiny, short):
    learner = Learner.create("F", model=replace(tiny, slots=0), training=replace(short, epochs=1), device="cpu")
    learner.learn(stream[:1])
    assert measure_attention(learner, stream) is None
