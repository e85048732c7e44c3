"""Models that memgrow 0.1.0 saved load, and answer as they did then."""

import json
from pathlib import Path

import pytest

from memgrow import Learner
from memgrow.data.synthetic_dialogue import synthetic_dialogue

FOLDER = Path(__file__).parent / "fixtures" / "model-0.1.0"
ANSWERS = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))


def test_a_classifier_answers_as_before() -> None:
    learner = Learner.load(FOLDER / "classifier", device="cpu")
    predicted = learner.predict([tuple(row["texts"]) for row in ANSWERS["classifier"]])
    for answer, row in zip(predicted, ANSWERS["classifier"], strict=True):
        assert answer.label == row["label"]
        assert answer.probabilities == pytest.approx(row["probabilities"], abs=1e-6)


def test_a_responder_scores_as_before() -> None:
    learner = Learner.load(FOLDER / "responder", device="cpu")
    stream = synthetic_dialogue(domains=2, train=40, validation=8, test=6)
    assert learner.evaluate(stream) == pytest.approx(ANSWERS["responder"], rel=1e-5)


@pytest.mark.parametrize("name", ["classifier", "responder"])
def test_saving_it_again_keeps_all_that_it_holds(name: str, tmp_path: Path) -> None:
    """Tensors and words to the byte; settings and figures may gain fields, but keep those that there were."""
    learner = Learner.load(FOLDER / name, device="cpu")
    learner.save(tmp_path / name)
    for path in (FOLDER / name).iterdir():
        written = tmp_path / name / path.name
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
