"""The folder of a model with a pretrained encoder is complete, and versions share what has not changed of it."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from memgrow.data.disk import stored_shapes
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.storage.checkpoint import BASE, ENTRY, MODEL, ROUTER
from memgrow.storage.versions import undo
from memgrow.training.settings import TrainingSettings
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


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("options", [{"entry_rank": 2}, {"independent": True, "rank": 2}])
def test_a_save_writes_the_entry_of_the_new_domain_and_the_one_that_it_changed(
    source, stream, tmp_path, monkeypatch, links: bool, options: dict[str, Any]
):
    if not links:
        monkeypatch.setattr(os, "link", without_links)
    method = "lora+memory" if "rank" in options else "finetune+memory"
    settings = MethodSettings(**options)
    learner = Learner.create(method, encoder=str(source), training=TRAINING, options=settings, device="cpu")
    folder, kept = tmp_path / "model", []
    for number, domain in enumerate(stream[:3], 1):
        learner.adapt(domain, folder=folder)
        kept.append(bits(learner))
        version = stored(folder)
        assert sorted(path.name for path in version.glob("entry-*")) == [ENTRY.format(n + 1) for n in range(number)]
        assert not any(name.startswith("memory.") for name in stored_shapes(version / MODEL))
        assert bits(Learner.load(folder, device="cpu")) == kept[-1]
    again = [name for name in (ENTRY.format(1), ROUTER) if (version / name).stat().st_nlink < 2]
    assert again == ([] if links else [ENTRY.format(1), ROUTER])
    for number in (2, 1):  # versions that share files with the one that goes
        undo(folder)
        assert bits(Learner.load(folder, device="cpu")) == kept[number - 1]


def without_links(*given: Any) -> None:
    raise OSError("this file system has no hard links")


def test_a_damaged_entry_is_not_shared(source, stream, tmp_path):
    learner = Learner.create("finetune+memory", encoder=str(source), training=TRAINING, device="cpu")
    learner.learn(stream[:2], folder=tmp_path / "model")
    first = stored(tmp_path / "model") / ENTRY.format(1)
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    learner.adapt(stream[2], folder=tmp_path / "model")
    assert bits(Learner.load(tmp_path / "model", device="cpu")) == bits(learner)
