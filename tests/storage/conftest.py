"""Small saved models."""

import shutil
from pathlib import Path

import pytest

from memgrow import Learner, ModelSettings, Stream, TrainingSettings
from memgrow.data import synthetic_stream

SMALL = ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4)
SHORT = TrainingSettings(rate=0.01, batch=16, epochs=1)


@pytest.fixture(scope="session")
def domains() -> Stream:
    return synthetic_stream(domains=3, train=24, validation=12, test=12, seed=3)


def load(folder: Path, version: int | None = None) -> Learner:
    return Learner.load(folder, device="cpu", version=version)


def answers(learner: Learner) -> list[float]:
    """Identifies what a learner has learned."""
    return [one.confidence for one in learner.predict([("a sharp soup", "the boat was late")])]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip(path: Path) -> None:
    """Change a bit in the middle of a file, without changing other names of it."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)


@pytest.fixture(scope="session")
def stages(domains: Stream) -> list[Learner]:
    """A learner before its first domain, and after one, two and three."""
    learners = [Learner.create("F+V", model=SMALL, training=SHORT, device="cpu")]
    for domain in domains:
        last = learners[-1]
        following = Learner(last.config, last.state, last.device)
        following.adapt(domain)
        learners.append(following)
    return learners


@pytest.fixture(scope="session")
def saved(stages: list[Learner], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three stages with all versions. Not to be changed, see `model`."""
    folder = tmp_path_factory.mktemp("saved") / "m"
    for learner in stages[1:]:
        learner.save(folder, keep_versions=5)
    return folder


@pytest.fixture
def model(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "m"))
