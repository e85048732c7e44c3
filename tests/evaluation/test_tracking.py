"""TensorBoard gets curves by domain, scores by stage; everything is passed on to the bar."""

import pytest

from memgrow import Learner
from memgrow.errors import SettingsError
from memgrow.evaluation.progress_bars import Tracking, find_tracker
from memgrow.training.progress import NoProgress, Step


class Writer:
    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []
        self.closed = False

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class Heard(NoProgress):
    def __init__(self) -> None:
        self.steps, self.notes = 0, list[str]()

    def step(self, step: Step) -> None:
        self.steps += 1

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)


def test_a_training_is_tracked(stream, tiny, short):
    learner, writer, heard = Learner.create("F+V", model=tiny, training=short, device="cpu"), Writer(), Heard()
    with Tracking(writer, heard) as tracked:
        learner.learn(stream[:2], progress=tracked, on_stage=lambda stage, new: tracked.stage(learner.history))
    assert writer.closed
    assert heard.steps
    names = {name for name, _, _ in writer.scalars}
    assert {"loss/kitchen", "training/kitchen", "validation/harbour", "test/kitchen", "test average"} <= names
    assert [step for name, _, step in writer.scalars if name == "validation/kitchen"] == [1, 2]


def test_tensorboard_writes_event_files(tmp_path):
    pytest.importorskip("tensorboard")
    with Tracking(find_tracker("tensorboard", tmp_path, "run")) as tracked:
        tracked.step(Step("books", 1, 1, 1, 1, loss=1.0, accuracy=1.0, validated=0.5))
    assert list((tmp_path / "run").glob("events*"))


def test_other_trackers_are_refused():
    with pytest.raises(SettingsError, match="tensorboard"):
        find_tracker("trackio", "folder", "run")
