"""A learner's probabilities are calibrated on what validation examples it has, and that is part of the model."""

import hashlib
import json
from dataclasses import asdict

import pytest
import torch

from memgrow import Learner, undo
from memgrow.calibration import Calibration, calibrate
from memgrow.errors import ModelError
from memgrow.metrics.calibration import fit_temperature, reliability
from tests.support.new_labels import with_label
from tests.support.stored import stored


@pytest.fixture(scope="module")
def domains(stream):
    return [stream[0], with_label(stream[1])]


@pytest.fixture(scope="module")
def saved(tmp_path_factory, domains, tiny, short):
    """A model of two domains, the second with a label of its own; the version before it is kept."""
    folder = tmp_path_factory.mktemp("calibrated") / "model"
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    for domain in domains:
        learner.adapt(domain, folder=folder)
    return folder


def test_the_temperature_is_that_of_the_newest_validation_examples(saved, domains):
    learner = Learner.load(saved, device="cpu")
    data = learner.encode(domains[1].validation)
    logits, labels = learner.classifier().logits(data), torch.tensor(data.labels)
    calibration = learner.calibration
    assert calibration.temperature == max(1.0, fit_temperature(logits, labels))
    assert list(calibration.domains) == [domain.name for domain in domains]
    first, second = calibration.domains.values()
    assert (first.stage, second.stage) == (1, 2)
    assert first.temperature != second.temperature == calibration.temperature
    assert second.before == reliability(logits, labels)
    assert second.after == reliability(logits, labels, calibration.temperature)
    assert learner.reliability(domains[1], "validation") == second.after


def test_it_never_makes_a_model_surer_of_domains_whose_examples_are_gone():
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0]] * 50)
    right, wrong = logits.argmax(-1), logits.argmin(-1)
    first = calibrate(logits, right, {"a": 100}, Calibration(), ["a"], 1)
    assert first.temperature < 1
    assert calibrate(logits, right, {"b": 100}, first, ["a", "b"], 2).temperature == 1
    assert calibrate(logits, wrong, {"b": 100}, first, ["a", "b"], 2).temperature > 1
    assert calibrate(logits, right, {"a": 50, "b": 50}, first, ["a", "b"], 2).temperature == first.temperature


def test_probabilities_follow_it_and_labels_do_not(saved, domains):
    learner = Learner.load(saved, device="cpu")
    texts, calibration = domains[0].test, learner.calibration
    labels, surest = [], []
    for temperature in (0.2, calibration.temperature, 1.0, 5.0):
        learner.calibration = Calibration(temperature, calibration.domains)
        found = learner.predict(texts)
        labels.append([one.label for one in found])
        surest.append(sum(max(one.probabilities.values()) for one in found))
        logits = learner.classifier().logits(learner.encode(texts, labelled=False))
        rows = [list(one.probabilities.values()) for one in found]
        torch.testing.assert_close(torch.tensor(rows), (logits / temperature).softmax(-1))
    assert all(one == labels[0] for one in labels)
    assert surest[0] > surest[2] > surest[3]


def test_undo_brings_the_earlier_temperature_back_and_what_was_known_of_texts(saved, domains, tmp_path):
    before = Learner.load(saved, device="cpu", version=1).calibration
    folder = tmp_path / "model"
    learner = Learner.load(saved, device="cpu", version=1)
    learner.save(folder)
    learner.adapt(domains[1], folder=folder)
    assert Learner.load(folder, device="cpu").calibration == Learner.load(saved, device="cpu").calibration != before
    assert list(learner.reference.domains) == [domain.name for domain in domains]
    undo(folder)
    again = Learner.load(folder, device="cpu")
    assert again.calibration == before
    assert list(again.reference.domains) == [domains[0].name]


def test_domains_that_are_learnt_together_are_fitted_together(domains, tiny, short):
    learner = Learner.create("multi-task", model=tiny, training=short, device="cpu")
    learner.learn(domains)
    found = learner.calibration.domains
    assert list(found) == [domain.name for domain in domains]
    for domain in domains:
        alone = asdict(learner.reliability(domain, "validation"))  # other batches round otherwise
        assert asdict(found[domain.name].after) == pytest.approx(alone, abs=1e-4)


WRONG = {
    "temperature": [0.0, -1.0, float("nan"), float("inf"), "warm", None, 1],
    "domains": [None, {"a": None}, {"a": {}}, {"a": {"stage": 1}}, [1]],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_calibration_that_is_none_is_refused(saved, tmp_path, field, value):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in saved.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    text = json.dumps(json.loads((stored(folder) / "calibration.json").read_text()) | {field: value})
    (stored(folder) / "calibration.json").write_text(text)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"]["calibration.json"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps({key: manifest[key] for key in ("format", "sha256")}))
    with pytest.raises(ModelError, match=r"calibration\.json"):
        Learner.load(folder, device="cpu")


def test_a_folder_without_it_answers_at_temperature_1(saved, tmp_path, domains):
    learner = Learner.load(saved, device="cpu")
    learner.calibration = Calibration()
    learner.save(tmp_path / "old")
    assert not (stored(tmp_path / "old") / "calibration.json").exists()
    again = Learner.load(tmp_path / "old", device="cpu")
    assert again.calibration == Calibration()
    rows = [list(one.probabilities.values()) for one in again.predict(domains[0].test)]
    logits = learner.classifier().logits(learner.encode(domains[0].test, labelled=False))
    assert torch.equal(torch.tensor(rows), logits.softmax(-1))
