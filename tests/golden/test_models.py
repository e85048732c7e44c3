"""Models saved by earlier versions load, answer as they did, can be saved and can learn on; `make.py` made them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from memgrow import Domain, Example, Learner, TrainingSettings, undo

MODELS = Path(__file__).parent / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.json"))
GO_ON = [name for name in NAMES if not name.startswith("format-2-") and name != "0.1.0-classifier"]


def assert_same_answers(learner: Learner, expected: dict[str, Any]) -> None:
    assert learner.task == expected["task"]
    if learner.task == "reply":
        domains = [
            Domain(name, train=(), validation=(), test=tuple(Example(text, reply=reply) for text, reply in rows))
            for name, rows in expected["domains"].items()
        ]
        assert learner.evaluate(domains) == pytest.approx(expected["scores"], rel=1e-5)
        replies = learner.reply(expected["messages"], max_words=8)
        assert [reply.text for reply in replies] == [reply["text"] for reply in expected["replies"]]
        scores = [reply["score"] for reply in expected["replies"]]
        assert [reply.score for reply in replies] == pytest.approx(scores, abs=1e-4)
        return
    found = learner.predict([tuple(texts) for texts in expected["texts"]])
    assert [one.label for one in found] == expected["labels"]
    for one, probabilities in zip(found, expected["probabilities"], strict=True):
        assert one.probabilities == pytest.approx(probabilities, abs=1e-5)


def new_domain(task: str | None) -> Domain:
    """A third domain; of labels, with one that no model has."""
    if task == "reply":
        rows = [Example(f"where is the {n} train", reply=f"on track {n}") for n in range(12)]
    else:
        pair = "it was said" if task == "pair" else None
        rows = [
            Example(f"a {label} {n} train", pair, label) for n in range(6) for label in ("good", "entailment", "fresh")
        ]
    return Domain("station", train=tuple(rows), validation=tuple(rows[:6]), test=tuple(rows[:6]))


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_it_answers_as_before(name: str, expected: dict[str, Any]) -> None:
    learner = Learner.load(MODELS / name, device="cpu")
    assert len(learner.history.stages) == 2
    assert_same_answers(learner, expected)


def test_it_is_saved_and_loaded_again(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    learner = Learner.load(MODELS / name, device="cpu")
    learner.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", device="cpu")
    assert again.history == learner.history
    assert_same_answers(again, expected)


@pytest.mark.parametrize("name", GO_ON)
def test_it_learns_a_further_domain_and_takes_it_back(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(MODELS / name, tmp_path / "model")
    learner = Learner.load(tmp_path / "model", device="cpu")
    learner.training = TrainingSettings(rate=0.01, batch=8, epochs=1)
    known = learner.labels or ()
    domain = new_domain(learner.task)
    learner.adapt(domain, folder=tmp_path / "model", keep_versions=1)
    again = Learner.load(tmp_path / "model", device="cpu")
    assert again.history.domains == (*learner.history.domains[:2], "station")
    assert set(again.labels or ()) == {*known, *domain.labels}
    undo(tmp_path / "model")
    assert_same_answers(Learner.load(tmp_path / "model", device="cpu"), expected)


def test_an_earlier_version_of_it_is_kept(tmp_path: Path) -> None:
    folder = shutil.copytree(MODELS / "text-two-versions", tmp_path / "model")
    first = {"task": "text", **json.loads((MODELS / "text-two-versions.json").read_text(encoding="utf-8"))["first"]}
    assert_same_answers(Learner.load(folder, device="cpu", version=1), first)
    assert [len(stage.learned) for stage in undo(folder).taken_back] == [1]
    assert_same_answers(Learner.load(folder, device="cpu"), first)
