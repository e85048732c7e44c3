"""A learner that learns replies: what it answers, how that is measured, and whose slots it reads."""

import math

import pytest
import torch

from memgrow.data import Domain, Example
from memgrow.errors import DataError, ModelError, SettingsError
from memgrow.evaluation.replies import evaluate_replies
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from research.common.dialogues import synthetic_dialogue

MODEL = ModelSettings(cell="gru", embedding=8, hidden=12, slots=4, bidirectional=False)
TRAINING = TrainingSettings(rate=1e-2, epochs=2, batch=16)


def learner(method: str = "finetune+slots+vocab", **options) -> Learner:
    return Learner.create(
        method, model=MODEL, training=TRAINING, options=MethodSettings(fisher_examples=5, **options), device="cpu"
    )


@pytest.fixture(scope="module")
def stream():
    return synthetic_dialogue(train=80, validation=20, test=30)


@pytest.fixture(scope="module")
def trained(stream) -> Learner:
    one = learner()
    one.learn(stream)
    return one


def test_every_message_gets_a_reply_in_its_place(trained, stream):
    asked = list(stream[0].test)
    answers = trained.reply(asked, max_words=6)
    alone = [trained.reply([example], max_words=6)[0] for example in asked]
    assert [answer.text for answer in answers] == [answer.text for answer in alone]
    for answer in answers:
        assert len(answer.words) <= 6
        assert "<unk>" not in answer.text.split()
        assert "<pad>" not in answer.text.split()


@pytest.mark.parametrize("message", ["zyx qwv", "?", " ".join(["where"] * 5000)], ids=["unknown", "mark", "long"])
def test_odd_messages_are_answered(trained, message):
    (answer,) = trained.reply([message], max_words=5)
    assert math.isfinite(answer.score)


def test_the_figures_of_a_domain(trained, stream):
    found = evaluate_replies(trained, stream[1])
    assert found.examples == 30
    assert found.perplexity == pytest.approx(1 / trained.evaluate(stream[1])[stream[1].name])
    assert found.perplexity > 1
    assert 0 <= found.bleu2 <= 100


def test_saving_and_loading_changes_no_reply(trained, stream, tmp_path):
    trained.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", device="cpu")
    asked = list(stream[0].test)
    assert again.reply(asked, beam=3) == trained.reply(asked, beam=3)


def test_old_words_keep_their_scores_when_words_join(stream):
    one = learner("finetune+vocab")
    one.adapt(stream[0])
    before, known = one.trained(), len(one.vocabulary)
    one.training = TrainingSettings(rate=1e-12, epochs=1, batch=16)
    one.adapt(stream[1])
    after = one.trained()
    assert len(one.vocabulary) > known
    old, new = (model.heads[-1].output.weight.detach() for model in (before, after))
    torch.testing.assert_close(new[:known], old, rtol=0, atol=1e-6)


def test_what_does_not_go_with_replies_is_told(trained, stream):
    with pytest.raises(ModelError, match="predicts no labels"):
        trained.predict(["hello"])
    with pytest.raises(SettingsError, match="needs labels"):
        learner("finetune+vocab+distill").adapt(stream[0])
    with pytest.raises(DataError, match="learns replies"):
        trained.adapt(Domain("x", tuple(Example("a", label=label) for label in "bcbc"), (Example("a", label="b"),), ()))
    classifier = Learner.create(model=ModelSettings(embedding=6, hidden=5, slots=4), training=TRAINING, device="cpu")
    pairs = tuple(Example(f"a {n}", label=str(n % 2)) for n in range(20))
    classifier.adapt(Domain("x", pairs, pairs, pairs))
    with pytest.raises(ModelError, match="no replies"):
        classifier.reply(["hello"])
