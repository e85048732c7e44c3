"""Whose slots each word reads."""

import pytest

from memgrow.data import Example, synthetic_stream
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.reading import read_reply, read_words
from memgrow.training.settings import TrainingSettings

ONCE = TrainingSettings(epochs=1, batch=16, max_words=6)  # some texts are cut
SIZES = {"embedding": 4, "hidden": 4, "slots": 3, "perceptron": 4}


def taught(stream, method: str = "F+M+V", **changes) -> Learner:
    learner = Learner.create(method, model=ModelSettings(**{**SIZES, **changes}), training=ONCE, device="cpu")
    learner.learn(stream)
    return learner


@pytest.fixture(scope="module")
def stream():
    return synthetic_stream(domains=2, train=12, validation=4, test=4)


@pytest.mark.parametrize("method", ["F+M+V", "progressive"])
def test_the_shares_of_a_word_add_up_to_one_and_their_mean_is_what_the_whole_text_reads(stream, method):
    learner = taught(stream, method)
    example = Example("a man sleeps in the old garden by the river", "nobody sleeps")
    reading, banks = read_words(learner, example), learner.reading(example)
    assert reading.domains == tuple(dict.fromkeys(name for bank in banks for name in bank))
    assert [[one.word for one in reading.words if one.text == text] for text in (0, 1)] == list(learner.tokens(example))
    assert [sum(one.shares) for one in reading.words] == pytest.approx([1] * len(reading.words))
    for place, name in enumerate(reading.domains):
        whole = sum(float(bank[name].sum()) for bank in banks if name in bank) / len(banks)
        assert sum(one.shares[place] for one in reading.words) == pytest.approx(whole, abs=1e-5)


def test_words_of_a_model_without_slots_have_no_shares(stream):
    reading = read_words(taught(stream, "F", slots=0), Example("a man", "a dog"))
    assert reading.domains == ()
    assert [(one.word, one.text, one.shares) for one in reading.words] == [
        ("a", 0, ()),
        ("man", 0, ()),
        ("a", 1, ()),
        ("dog", 1, ()),
    ]


def test_a_reply_is_read_beside_its_message():
    learner = taught(synthetic_dialogue(train=12, validation=4, test=4), cell="gru", bidirectional=False)
    message = Example("where is the garden")
    (answer,) = learner.reply([message], max_words=3)
    reading = read_reply(learner, message, answer)
    assert " ".join(one.word for one in reading.words if one.text == 0) == message.text
    assert " ".join(one.word for one in reading.words if one.text == 1) == answer.text
    assert [sum(one.shares) for one in reading.words] == pytest.approx([1] * len(reading.words))
