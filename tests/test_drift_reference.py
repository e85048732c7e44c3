"""What is noted of each domain's texts is part of the model: saved, taken back, refused where it makes no sense."""

import hashlib
import json
import re

import pytest

from memgrow import Learner
from memgrow.data import synthetic_dialogue
from memgrow.drift import Reference
from memgrow.errors import ModelError
from tests.support.stored import stored


@pytest.fixture(scope="module")
def saved(tmp_path_factory, stream, tiny, short):
    folder = tmp_path_factory.mktemp("noted") / "model"
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    for domain in stream[:2]:
        learner.adapt(domain, folder=folder)
    return folder


def test_each_stage_adds_its_domain_and_leaves_the_others(saved, stream):
    first, both = (Learner.load(saved, device="cpu", version=number).reference for number in (1, 2))
    assert list(both.domains) == [domain.name for domain in stream[:2]]
    assert first.domains[stream[0].name] == both.domains[stream[0].name]
    one = both.domains[stream[1].name]
    assert (one.stage, one.texts) == (2, len(stream[1].train))
    assert Reference.from_json(json.loads(json.dumps(both.to_json()))) == both


def test_a_model_that_starts_anew_knows_nothing_of_earlier_domains(stream, tiny, short):
    alone = Learner.create("in-domain", model=tiny, training=short, device="cpu")
    together = Learner.create("multi-task", model=tiny, training=short, device="cpu")
    for learner in (alone, together):
        learner.learn(stream[:2])
    assert list(alone.reference.domains) == [stream[1].name]
    assert list(together.reference.domains) == [domain.name for domain in stream[:2]]


def test_a_model_of_replies_is_watched_by_its_messages(tiny, short):
    (domain,) = synthetic_dialogue(domains=1, train=40, validation=40, test=40)
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    learner.adapt(domain)
    monitor = learner.drift_monitor(window=40)
    (verdict,) = monitor.add(domain.test)
    assert set(verdict.tests) == {"distance", "unknown words"}
    assert verdict.p > 0.01


def change(saved, folder, **values):
    folder.mkdir()
    for file in saved.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    text = json.dumps(json.loads((stored(folder) / "drift.json").read_text()) | values)
    (stored(folder) / "drift.json").write_text(text)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"]["drift.json"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps({key: manifest[key] for key in ("format", "sha256")}))
    return folder


GOOD = {"stage": 1, "texts": 40, "mean": [0.0] * 128, "spread": [1.0, 1.0, 1.0], "unknown": None, "confidence": None}
WRONG = [
    None,
    [],
    {"a": None},
    *({"a": {name: value for name, value in GOOD.items() if name != left_out}} for left_out in GOOD),
    {"a": GOOD | {"mean": [0.0]}},
    {"a": GOOD | {"mean": ["x"] * 128}},
    {"a": GOOD | {"spread": [1.0, 1.0, float("nan")]}},
    {"a": GOOD | {"spread": [1.0, -1.0, 1.0]}},
    {"a": GOOD | {"texts": 0}},
    {"a": GOOD | {"unknown": {"examples": 0, "mean": 0.0, "variance": 0.0}}},
    {"a": GOOD | {"confidence": {"examples": 9, "mean": 0.0, "variance": -1.0}}},
]


@pytest.mark.parametrize("domains", WRONG)
def test_a_summary_that_is_none_is_refused(saved, tmp_path, domains):
    with pytest.raises(ModelError, match=r"drift\.json"):
        Learner.load(change(saved, tmp_path / "model", domains=domains), device="cpu")


@pytest.mark.parametrize("name", ["calibration.json", "drift.json"])
def test_what_was_noted_of_the_data_is_missed_when_it_is_lost(saved, tmp_path, name):
    folder = change(saved, tmp_path / "model")
    (folder / name).unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"][name]  # it does not know of it either
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=f"^{re.escape(name)} is missing"):
        Learner.load(folder, device="cpu")
    config = json.loads((stored(folder) / "config.json").read_text())
    del config["noted"]  # as in a folder of an earlier memgrow
    (stored(folder) / "config.json").write_text(json.dumps(config))
    manifest["sha256"]["config.json"] = hashlib.sha256((stored(folder) / "config.json").read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    learner = Learner.load(folder, device="cpu")
    assert not (learner.calibration if name == "calibration.json" else learner.reference).domains


def test_a_summary_of_other_features_is_as_none(saved, tmp_path, stream):
    learner = Learner.load(change(saved, tmp_path / "model", features="those of next year"), device="cpu")
    assert learner.reference == Reference()
    monitor = learner.drift_monitor()
    monitor.add(stream[0].test)
    assert "no summary of its domains" in monitor.report().sentence
