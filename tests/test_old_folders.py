"""Models that were saved in each format load, answer as they did then, and go on; `tests/fixtures/make.py` made them.

Format 1 is that of memgrow 0.1.0, which made its models itself.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from memgrow import Learner, undo
from memgrow.checkpoint import FORMAT, find_faults
from memgrow.manifest import Manifest
from tests.fixtures.make import dialogues, labels
from tests.support.new_labels import NEW, with_label

FIXTURES = Path(__file__).parent / "fixtures"
SAVED = sorted(path.parent.relative_to(FIXTURES) for path in FIXTURES.glob("model-*/*/manifest.json"))


@pytest.fixture(params=SAVED, ids=str)
def saved(request) -> Path:
    return FIXTURES / request.param


def answers(saved: Path) -> Any:
    return json.loads((saved.parent / "answers.json").read_text(encoding="utf-8"))[saved.name]


def test_there_are_models_of_every_format() -> None:
    """A new format needs models that were saved by it: run tests/fixtures/make.py, once."""
    assert {Manifest.of(FIXTURES / path).format for path in SAVED} == set(range(1, FORMAT + 1))
    assert {path.name for path in SAVED} == {"classifier", "responder", "encoder"}


def test_it_is_whole_and_answers_as_before(saved) -> None:
    assert not find_faults(saved)
    learner = Learner.load(saved, device="cpu")
    if learner.task == "reply":
        assert learner.evaluate(dialogues()) == pytest.approx(answers(saved), rel=1e-5)
        return
    rows = answers(saved)
    for answer, row in zip(learner.predict([tuple(row["texts"]) for row in rows]), rows, strict=True):
        assert answer.label == row["label"]
        assert answer.probabilities == pytest.approx(row["probabilities"], abs=1e-5)


def test_saving_it_again_keeps_all_that_it_holds(saved, tmp_path) -> None:
    """Tensors and words to the byte; settings and figures may gain fields, but keep those that there were."""
    learner = Learner.load(saved, device="cpu")
    learner.save(tmp_path / "m")
    for path in saved.iterdir():
        written = tmp_path / "m" / path.name
        if path.name in ("config.json", "history.json"):
            assert_holds(json.loads(written.read_text()), json.loads(path.read_text()))
        elif path.name != "manifest.json":
            assert written.read_bytes() == path.read_bytes(), path.name


def assert_holds(new: object, old: object) -> None:
    if isinstance(old, dict):
        for key, value in old.items():
            assert_holds(new[key], value)
    else:
        assert new == old


def test_it_learns_a_further_domain_and_a_label_that_it_did_not_have(saved, tmp_path) -> None:
    shutil.copytree(saved, tmp_path / "m")
    learner = Learner.load(tmp_path / "m", device="cpu")
    replies, known = learner.task == "reply", learner.labels
    domain = dialogues()[1] if replies else with_label(labels()[1])
    learner.adapt(domain, folder=tmp_path / "m")
    again = Learner.load(tmp_path / "m", device="cpu")
    assert len(again.history.stages) == 3
    assert again.labels == (() if replies else (*known, NEW))
    assert again.history.labels.get(domain.name, ()) == domain.labels
    undo(tmp_path / "m")
    assert Manifest.of(tmp_path / "m").format == Manifest.of(saved).format
    for path in saved.iterdir():
        assert path.name == "manifest.json" or (tmp_path / "m" / path.name).read_bytes() == path.read_bytes()
