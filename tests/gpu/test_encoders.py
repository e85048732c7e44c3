"""On a GPU: training of a pretrained encoder repeats to the bit, also after a killed run."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from memgrow.data import synthetic_stream
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models.base import PretrainedSettings
from memgrow.training.settings import TrainingSettings
from tests.support.breaking import LAST, Plug, PulledPlug, keep_epoch
from tests.support.new_labels import with_label
from tests.support.tiny_encoder import FAMILIES, make_encoder

TRAINING = TrainingSettings(rate=1e-3, new_rate=2e-3, batch=16, epochs=4, patience=4, warm_up=3, schedule="linear")


@pytest.fixture(scope="module")
def stream():
    """Two domains, of which the second brings a label."""
    first, second = synthetic_stream(domains=2, train=200, validation=40, test=40, seed=0)
    return [first, with_label(second)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def make(folder: Path, method: str = "F+M", training: TrainingSettings = TRAINING, **model) -> Learner:
    settings = PretrainedSettings(encoder=str(folder), slots=0, **model)
    options = MethodSettings(slots=4, fisher_examples=8, strength=50.0, smooth="auto")  # which E alone reads
    return Learner.create(method, model=settings, training=training, options=options, device="cuda")


def assert_same_bits(ours: Learner, theirs: Learner) -> None:
    for (name, p), q in zip(ours.trained().named_parameters(), theirs.trained().parameters(), strict=True):
        assert torch.equal(p, q), name


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pairs", ["one", "two"])
def test_training_repeats_to_the_bit(family, pairs, stream, tmp_path):
    folder = make_encoder(tmp_path / family, family)
    domain = replace(stream[0], train=tuple(replace(e, pair=e.text[::-1]) for e in stream[0].train))
    domain = replace(domain, validation=domain.train[:40], test=())
    learners = [make(folder, "F+M+E", pairs=pairs) for _ in range(2)]
    for learner in learners:
        learner.adapt(domain)
        learner.adapt(replace(domain, name="again"))
    assert_same_bits(*learners)


@pytest.mark.parametrize("method", ["F+M+E", "frozen+M"])
def test_a_killed_run_goes_on_with_the_same_bits(method, folder, stream, monkeypatch, tmp_path):
    keep_epoch(LAST, monkeypatch)
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    whole = make(folder, method)
    for domain in stream:
        whole.adapt(domain)
    learner = make(folder, method)
    learner.adapt(stream[0])
    learner.save(tmp_path / "model")
    for reports in (9, 20):  # in the first epoch and, counted from there, in the second
        with pytest.raises(PulledPlug):
            Learner.load(tmp_path / "model", device="cuda").adapt(
                stream[1], folder=tmp_path / "model", save_every=0, progress=Plug(reports)
            )
    resumed = Learner.load(tmp_path / "model", device="cuda")
    resumed.adapt(stream[1], folder=tmp_path / "model")
    assert_same_bits(whole, resumed)


@pytest.mark.parametrize("method", ["EWC", "ridge"])
def test_what_methods_remember_is_taken_up_after_loading(method, folder, stream, tmp_path):
    whole = make(folder, method)
    for domain in stream:
        whole.adapt(domain, folder=tmp_path / "model" if domain is stream[0] else None)
    loaded = Learner.load(tmp_path / "model", device="cuda")
    loaded.adapt(stream[1])
    assert_same_bits(whole, loaded)


def test_bfloat16_answers_as_float32_does(folder, stream):
    learner = make(folder, precision="float32")
    learner.adapt(stream[0])
    model = learner.classifier()
    data = learner.encode(stream[0].test)
    exact = model.logits(data).softmax(-1)
    model.encoder.settings = replace(model.encoder.settings, precision="bfloat16")
    assert (model.logits(data).softmax(-1) - exact).abs().max() < 2e-2
