"""Attention to slots: by word, by bank, and over the texts of a domain."""

from dataclasses import replace

import pytest

from memgrow.data import Example
from memgrow.evaluation.attention import (
    read_reply,
    read_words,
)
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from research.common.dialogues import synthetic_dialogue


def taught(stream, short, method: str = "finetune+slots+vocab", **sizes) -> Learner:
    model = ModelSettings(**{"embedding": 4, "hidden": 4, "slots": 4, "perceptron": 4, **sizes})
    learner = Learner.create(method, model=model, training=replace(short, epochs=1), device="cpu")
    learner.learn(stream)
    return learner


@pytest.fixture(scope="module")
def responder(short):
    stream = synthetic_dialogue(train=40, validation=8, test=8)
    return taught(stream, short, cell="gru", bidirectional=False), stream


@pytest.mark.parametrize("method", ["finetune+slots+vocab", "progressive"])
def test_the_shares_of_a_word_add_up_to_one_and_their_sum_is_what_the_text_reads(stream, short, method):
    learner = taught(stream[:2], short, method)
    example = Example("a man sleeps in the old garden by the river", "nobody sleeps")
    reading, banks = read_words(learner, example), learner.attention(example)
    assert reading.domains == tuple(dict.fromkeys(name for bank in banks for name in bank))
    assert [[one.word for one in reading.words if one.text == text] for text in (0, 1)] == list(learner.tokens(example))
    assert [sum(one.shares) for one in reading.words] == pytest.approx([1] * len(reading.words))
    for place, name in enumerate(reading.domains):
        whole = sum(float(bank[name].sum()) for bank in banks if name in bank) / len(banks)
        assert sum(one.shares[place] for one in reading.words) == pytest.approx(whole, abs=1e-5)


def test_a_model_without_slots_has_no_shares(stream, short):
    learner = taught(stream[:1], short, "finetune", slots=0)
    reading = read_words(learner, Example("a man", "a dog"))
    assert reading.domains == ()
    assert [(one.word, one.text, one.shares) for one in reading.words][1:3] == [("man", 0, ()), ("a", 1, ())]


def test_a_reply_is_read_together_with_its_message(responder):
    learner, _ = responder
    message = Example("where is the garden")
    (answer,) = learner.reply([message], max_words=3)
    reading = read_reply(learner, message, answer)
    assert " ".join(one.word for one in reading.words if one.text == 0) == message.text
    assert " ".join(one.word for one in reading.words if one.text == 1) == answer.text
    assert [sum(one.shares) for one in reading.words] == pytest.approx([1] * len(reading.words))
