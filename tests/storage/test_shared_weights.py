"""The folder of a model with a pretrained encoder is complete, and versions share what has not changed of it."""

import shutil
from pathlib import Path

import pytest

from memgrow.data.disk import stored_shapes
from memgrow.errors import MemgrowError, SettingsError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.storage.checkpoint import BASE, MODEL
from memgrow.training.settings import TrainingSettings
from tests.support.breaking import Plug, PulledPlug
from tests.support.stored import stored
from tests.support.tiny_encoder import make_encoder

TRAINING = TrainingSettings(rate=1e-3, batch=16, epochs=2)


@pytest.fixture
def source(tmp_path) -> Path:
    """The folder that the encoder comes from."""
    folder = make_encoder(tmp_path / "source")
    (folder / "LICENSE").write_text("free\n")
    return folder


def make(source: Path, method: str = "frozen+M") -> Learner:
    options = MethodSettings(slots=3)
    return Learner.create(method, encoder=str(source), training=TRAINING, options=options, device="cpu")


def bits(learner: Learner) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in learner.trained().state_dict().items()}


def test_a_model_moves_to_a_place_that_has_neither_the_encoder_nor_earlier_versions(source, stream, tmp_path):
    learner = make(source)
    for version, domain in enumerate(stream[:2]):
        learner.adapt(domain, folder=tmp_path / f"v{version}")
    shutil.copytree(tmp_path / "v1", tmp_path / "far" / "away")
    for name in ("source", "v0", "v1"):
        shutil.rmtree(tmp_path / name)
    moved = Learner.load(tmp_path / "far" / "away", device="cpu")
    assert bits(moved) == bits(learner)
    assert moved.predict(stream[1].test) == learner.predict(stream[1].test)
    assert moved.encoder.licences == {"LICENSE": "free\n"}
    for one in (moved, learner):
        one.adapt(stream[2])
    assert bits(moved) == bits(learner)


def test_beside_a_frozen_encoder_only_memories_and_head_are_stored_again(source, stream, tmp_path):
    learner = make(source)
    for version, domain in enumerate(stream[:3]):
        learner.adapt(domain)
        learner.save(tmp_path / f"v{version}")
        assert (stored(tmp_path / f"v{version}") / BASE).samefile(stored(tmp_path / "v0") / BASE)
        assert bits(Learner.load(tmp_path / f"v{version}", device="cpu")) == bits(learner)
    assert {name.split(".")[1] for name in stored_shapes(stored(tmp_path / "v0") / BASE)} >= {"backbone"}
    again = stored_shapes(stored(tmp_path / "v2") / MODEL)
    assert again
    assert all(name.startswith(("encoder.memories.", "heads.")) for name in again)


def test_a_folder_that_is_replaced_keeps_its_base_also_where_the_model_was_loaded_elsewhere(source, stream, tmp_path):
    make(source).adapt(stream[0], folder=tmp_path / "model")
    base = (stored(tmp_path / "model") / BASE).stat().st_ino
    away = shutil.copytree(tmp_path / "model", tmp_path / "away")
    learner = Learner.load(away, device="cpu")
    shutil.rmtree(away)
    learner.adapt(stream[1])
    learner.save(tmp_path / "model")
    assert (stored(tmp_path / "model") / BASE).stat().st_ino == base
    assert bits(Learner.load(tmp_path / "model", device="cpu")) == bits(learner)


def test_where_the_encoder_trains_the_next_version_has_a_base_of_its_own(source, stream, tmp_path):
    learner = make(source, "F")
    for version, domain in enumerate(stream[:2]):
        learner.adapt(domain)
        learner.save(tmp_path / f"v{version}")
        assert bits(Learner.load(tmp_path / f"v{version}", device="cpu")) == bits(learner)
    assert not (stored(tmp_path / "v1") / BASE).samefile(stored(tmp_path / "v0") / BASE)
    assert not any(name.startswith("encoder.") for name in stored_shapes(stored(tmp_path / "v1") / MODEL))


@pytest.mark.parametrize("method", ["frozen+M", "F+M", "F"])
def test_a_training_that_was_broken_off_goes_on_to_the_same_bits(method, source, stream, tmp_path, monkeypatch):
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    whole, broken = make(source, method), make(source, method)
    folder = tmp_path / "model"
    for domain in stream[:2]:
        whole.adapt(domain)
        for reports in (1, 3):
            with pytest.raises(PulledPlug):
                broken.adapt(domain, folder=folder, save_every=0, progress=Plug(reports))
        broken.adapt(domain, folder=folder)
        broken = Learner.load(folder, device="cpu")
    assert bits(whole) == bits(broken)


@pytest.mark.parametrize("method", ["in-domain", "multi-task"])
def test_a_loaded_model_starts_afresh_from_the_encoder_it_came_from(method, source, stream, tmp_path):
    earlier = stream[:1] if method == "multi-task" else ()
    learner = make(source, method)
    learner.adapt(stream[0], folder=tmp_path / "model")
    for one in (learner, loaded := Learner.load(tmp_path / "model", device="cpu")):
        one.adapt(stream[1], earlier=earlier)
    assert bits(loaded) == bits(learner)
    make_encoder(source, seed=1)
    with pytest.raises(SettingsError, match="SHA-256"):
        Learner.load(tmp_path / "model", device="cpu").adapt(stream[1], earlier=earlier)
    shutil.rmtree(source)
    with pytest.raises(MemgrowError, match=str(source)):
        Learner.load(tmp_path / "model", device="cpu").adapt(stream[1], earlier=earlier)
