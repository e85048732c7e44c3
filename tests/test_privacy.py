"""Nothing of what a single document says is found in any file or line that memgrow writes.

What every method leaves in a model's folder is looked at in tests/methods/test_conformance.py.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.settings import FINE_TUNING, RECURRENT
from research.common.dialogues import synthetic_dialogue
from tests.support.breaking import Plug, PulledPlug
from tests.support.canaries import leaks, planted, rare_words
from tests.support.tiny_encoder import make_encoder

MODELS = {
    "labels": ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4),
    "replies": ModelSettings(cell="gru", embedding=4, hidden=3, slots=2, bidirectional=False),
    "encoder": PretrainedSettings(slots=2, key_size=4, best=2),
}


@pytest.fixture(scope="module")
def streams() -> dict[str, Stream]:
    labels = planted(synthetic_stream(domains=2, train=16, validation=6, test=6, seed=3))
    replies = planted(synthetic_dialogue(domains=2, train=16, validation=6, test=6))
    return {"labels": labels, "replies": replies, "encoder": labels}


@pytest.fixture(scope="module")
def secrets() -> set[str]:
    found = rare_words(2)
    assert len(found) >= 36
    return found


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


def create(kind: str, method: str, encoder: Path, epochs: int = 1, **training: int) -> Learner:
    """A learner with the training that users get, but for its length."""
    model, usual = MODELS[kind], RECURRENT
    if isinstance(model, PretrainedSettings):
        model, usual = replace(model, encoder=str(encoder)), FINE_TUNING
    training = replace(usual, epochs=epochs, batch=16, **training)
    options = MethodSettings(slots=2, fisher_examples=4)
    return Learner.create(method, model=model, training=training, options=options, device="cpu")


@pytest.mark.parametrize(("kind", "method"), [("labels", "EWC+M+V"), ("replies", "F+M+V"), ("encoder", "frozen+M")])
def test_a_training_that_is_broken_off_leaves_nothing_of_it_either(kind, method, streams, secrets, encoder, tmp_path):
    learner = create(kind, method, encoder, epochs=9, patience=9)
    learner.adapt(streams[kind][0], folder=tmp_path / "m")
    with pytest.raises(PulledPlug):
        learner.adapt(streams[kind][1], folder=tmp_path / "m", save_every=0.0, progress=Plug(1))
    assert list(tmp_path.glob("m/training/state.*"))
    assert not list(leaks(tmp_path, secrets))


def test_a_copy_that_is_passed_on_has_no_earlier_version(streams, encoder, tmp_path):
    create("labels", "F+V", encoder).learn(streams["labels"], folder=tmp_path / "m")
    Learner.load(tmp_path / "m", device="cpu").save(tmp_path / "copy")
    assert len(list((tmp_path / "m" / "versions").iterdir())) == 2
    assert len(list((tmp_path / "copy" / "versions").iterdir())) == 1


def test_the_search_finds_what_is_stored(streams, secrets, encoder, tmp_path):
    """Words join if they are asked for, from training data alone."""
    learner, heard = create("labels", "F+V", encoder, min_documents=1), Plug()
    learner.learn(streams["labels"], folder=tmp_path / "m", progress=heard)
    found = [Path(leak.partition(":")[0]) for leak in leaks(tmp_path, secrets)]
    assert [path.name for path in found] == ["vocabulary.json"] * 2, "of the model, and of the version before it"
    assert not any(word in learner.vocabulary for word in ("qyxylograph", "qpxylograph"))
    assert "including words that occur in a single document" in heard.notes[0]


@pytest.mark.parametrize("kind", ["labels", "replies"])
def test_where_no_word_is_shared_all_are_unknown_and_nothing_breaks(kind, encoder, tmp_path):
    def said(*words: str) -> tuple[Example, ...]:
        given = {"labels": ({"label": "a"}, {"label": "b"}), "replies": ({"reply": "yes"}, {"reply": "no"})}[kind]
        return tuple(Example(word, **rest) for word, rest in zip(words, given, strict=True))

    learner, heard = create(kind, "F+V", encoder), Plug()
    learner.adapt(Domain("x", said("one", "two"), said("three", "four")), folder=tmp_path / "m", progress=heard)
    assert "0 new words stored" in heard.notes[0]
    loaded = Learner.load(tmp_path / "m", device="cpu")
    assert loaded.vocabulary.words == ("<pad>", "<unk>")
    loaded.adapt(Domain("y", said("good day", "good night"), said("good", "day")))
    assert "good" in loaded.vocabulary
    assert "night" not in loaded.vocabulary
    assert len((loaded.reply if kind == "replies" else loaded.predict)(["good riddance"])) == 1
