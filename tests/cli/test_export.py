"""`memgrow export`: forms that there are, and mistakes in sentences."""

import json

import pytest

from memgrow.data import Domain, Example
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.learner import Learner
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.settings import TrainingSettings
from tests.support.tiny_encoder import make_encoder


def test_a_model_is_written_as_onnx_and_it_is_said_where(memgrow, made, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'memgrow[onnx]'")
    out = memgrow.done("export", made, "--to", "onnx", tmp_path / "out")
    assert "memgrow-export.json" in out
    assert json.loads((tmp_path / "out/memgrow-export.json").read_bytes())["pairs"] == "two"


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_who_predicts_in_bfloat16_is_told_that_the_graph_does_not(memgrow, tmp_path, precision, monkeypatch):
    monkeypatch.setattr("memgrow.export.export_onnx", lambda _, place, domain: place.mkdir())  # which takes a while
    rows = [Example(f"a {word} lamp", label=label) for word, label in (("fine", "good"), ("dull", "bad"))]
    model = PretrainedSettings(encoder=str(make_encoder(tmp_path / "tiny")), precision=precision)
    learner = Learner.create("ridge", model=model, device="cpu")
    learner.adapt(Domain("lamps", rows, rows))
    learner.save(tmp_path / "model")
    said = memgrow.done("export", tmp_path / "model", tmp_path / "out", "--to", "onnx")
    assert ("memgrow predict multiplies in bfloat16 on this machine" in said) == (precision == "bfloat16")


def test_a_model_is_written_for_the_hub_and_can_be_used_from_there(memgrow, made, tmp_path):
    memgrow.done("export", made, tmp_path / "out", "--to", "huggingface")
    asked = ("the soup was sharp", "the soup was thick")
    assert memgrow.done("predict", tmp_path / "out", *asked) == memgrow.done("predict", made, *asked)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--to", "tflite"), "there is no form 'tflite' to export to; there are onnx and huggingface"),
        (("--to", "huggingface", "--for-domain", "kitchen"), "--for-domain goes with --to onnx"),
        (("--to", "onnx", "--for-domain", "kitchen"), "a domain has no part of its own in a recurrent network"),
    ],
)
def test_mistakes_are_sentences_and_leave_nothing(memgrow, made, tmp_path, words, sentence):
    assert sentence in memgrow.refused("export", made, tmp_path / "out", *words)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_refused(memgrow, untouched):
    for form in ("onnx", "huggingface"):
        assert "is there already" in memgrow.refused("export", untouched, untouched, "--to", form)


def test_replies_go_to_the_hub_alone(memgrow, tmp_path):
    model = ModelSettings(cell="gru", embedding=6, hidden=5, slots=0, bidirectional=False)
    learner = Learner.create("F", model=model, training=TrainingSettings(epochs=1), device="cpu")
    learner.learn(synthetic_dialogue(domains=1, train=12, validation=4, test=4))
    learner.save(tmp_path / "model")
    said = memgrow.refused("export", tmp_path / "model", tmp_path / "out", "--to", "onnx")
    assert "answers with words" in said
    assert "--to huggingface" in said
