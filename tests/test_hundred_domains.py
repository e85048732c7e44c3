"""A model of a hundred domains is saved, loaded, verified, shown and taken further in seconds, and can be read."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from memgrow.cli import app
from memgrow.data import Domain, synthetic_stream
from memgrow.history import History
from memgrow.learner import Learner
from memgrow.methods import Grew
from memgrow.models import ModelSettings
from memgrow.text import Vocabulary
from memgrow.training.settings import TrainingSettings

NAMES = ["kitchen", *(f"domain-{number:02}-of-reviews" for number in range(1, 100))]
SECONDS = 5  # of the processor, where it takes a tenth of that
WIDTH, LINES = 80, 200


@pytest.fixture(scope="module")
def first() -> Domain:
    return synthetic_stream(domains=1, train=24, validation=8, test=8, seed=3)[0]


@pytest.fixture(scope="module")
def learner(first) -> Learner:
    """One domain is learnt; growth and history of the others are as if they had been."""
    sizes = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=8)
    learner = Learner.create("F+M+V", model=sizes, training=TrainingSettings(epochs=1), device="cpu")
    stage, history = learner.adapt(first), History()
    for number, name in enumerate(NAMES):
        if number:
            learner.trained().grow(slots=2, domain=name, words=torch.randn(2, 6))
            learner.vocabulary = Vocabulary((*learner.vocabulary.words[2:], f"{name}-a", f"{name}-b"))
            stage = replace(stage, learned=(name,), fingerprint=f"{number:064x}", grew=Grew(2, 0, 2, 0))
        history.add(stage, {other: (7 * at + 3 * number) % 100 / 100 for at, other in enumerate(NAMES)})
    learner.history = history
    return learner


@pytest.fixture(scope="module")
def saved(learner, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hundred") / "m"
    learner.save(folder)
    return folder


@pytest.fixture(autouse=True)
def quick():
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS


def shown(*words: object) -> str:
    result = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": str(WIDTH)})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_it_loads_as_it_was_saved_and_goes_on(learner, saved, first, tmp_path):
    loaded = Learner.load(saved, device="cpu")
    assert loaded.history == learner.history
    assert loaded.trained().banks[0].domains == tuple(NAMES)
    loaded.adapt(replace(first, name="another"), folder=tmp_path / "m")
    assert Learner.load(tmp_path / "m", device="cpu").history.domains == (*NAMES, "another")
    assert "is whole" in shown("verify", saved).replace("\n", " ")


def test_what_is_shown_of_it_can_be_read(learner, saved):
    lines = shown("inspect", saved, "the cook said so", "he did").splitlines()
    assert len(lines) < LINES
    assert max(map(len, lines)) <= WIDTH
    text = "\n".join(lines)
    assert "and 88 more" in text
    assert "the latest of 100 stages" in text
    assert text.count("70 others, mean") == 2  # of the matrix, and of what the text reads
    matrix = learner.history.matrix
    for number in range(90, 100):  # the newest have a row of their own
        (row,) = [line.split() for line in lines if line.split()[:1] == [NAMES[number]] and len(line.split()) == 5]
        best = max(matrix.score(stage, NAMES[number]) for stage in range(number, 100))
        now = matrix.score(-1, NAMES[number])
        expected = (matrix.score(number, NAMES[number]), best, now, best - now)
        assert row[1:] == [f"{100 * value:.1f}" for value in expected]


def test_json_has_all_of_it(learner, saved):
    found = json.loads(shown("inspect", saved, "--json"))
    assert found["about"]["domains"] == NAMES
    assert len(found["history"]["stages"]) == 100
    assert found["history"]["matrix"] == learner.history.matrix.to_json()
