"""A tracker is told of each epoch and each stage, whichever it is; where its package is missing, a sentence says so."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from memgrow.cli import learning
from memgrow.errors import SettingsError
from memgrow.evaluation.history import Grew, History, Stage
from memgrow.learner import Learner
from memgrow.report import tracking
from memgrow.report.tracking import SHOWN, TRACKERS, Tracking, find_tracker, plain
from tests.support.breaking import Plug


class Kept:
    """A tracker that remembers."""

    def __init__(self) -> None:
        self.figures: list[tuple[str, int, float]] = []
        self.pictures: list[tuple[str, int]] = []
        self.closed = False

    def scalars(self, values, step):
        self.figures += [(name, step, value) for name, value in values.items()]

    def picture(self, name, png, step):
        assert png.startswith(b"\x89PNG")
        self.pictures.append((name, step))

    def close(self):
        self.closed = True


def learn(tracker, stream, tiny, short, bar=None) -> Learner:
    learner = Learner.create("F", model=tiny, training=short, device="cpu")
    with Tracking(tracker, bar) as tracked:
        few = [replace(domain, train=domain.train[:16]) for domain in stream[:2]]
        learner.learn(few, progress=tracked, on_stage=lambda stage, new: tracked.stage(learner.history))
    return learner


def test_curves_of_each_domain_and_scores_of_each_stage_are_told(stream, tiny, short, monkeypatch):
    monkeypatch.setattr(tracking, "draw_matrices", lambda matrices, file, *_, **__: file.write(b"\x89PNG"))
    kept, bar = Kept(), Plug()
    learner = learn(kept, stream, tiny, short, bar)
    for stage in learner.history.stages:
        for figure in ("loss", "validation"):
            found = [value for name, _, value in kept.figures if name == f"{figure}/{stage.learned[0]}"]
            assert found == pytest.approx(getattr(stage.curve, figure), abs=1e-6)
    tests = [value for name, step, value in kept.figures if (name, step) == ("test/kitchen", 2)]
    assert tests == [learner.history.matrix.rows[1].scores["kitchen"]]
    assert kept.pictures == [("matrix", 1), ("matrix", 2)]
    assert kept.closed
    assert bar.steps  # which the bar gets as well


def test_a_matrix_that_nobody_could_read_is_no_picture():
    kept, history = Kept(), History()
    names = [f"d{number}" for number in range(26)]
    for at, name in enumerate(names):
        stage = Stage((name,), "F", Grew(), 1, 1, 1, 1, 0.5, 1.0, "")
        history.add(stage, dict.fromkeys(names[: at + 1], 0.5))
    Tracking(kept).stage(history)
    assert kept.figures
    assert kept.pictures == []


def test_no_two_domains_share_a_curve_and_no_name_begins_another_part():
    letters = ("/", "_", "\\", "\x1b", "\x1d", "1b", "2f", "x", "é")  # what is replaced, and what it may become
    names = [*map("".join, product(letters, repeat=3)), *map("".join, product(letters, repeat=4))]
    shown = {plain(name): name for name in names}
    assert len(shown) == len(set(names))
    assert not any("/" in name or "\x1b" in name for name in shown)
    assert [plain(name) for name in ("books", "my books_2", "bücher")] == ["books", "my books_2", "bücher"]
    kept, history = Kept(), History()
    stage = Stage(("news/uk",), "F", Grew(), 1, 1, 1, 1, 0.5, 1.0, "")
    history.add(stage, {"news/uk": 0.25, "news_uk": 0.75})
    Tracking(kept).stage(history)
    assert {(name, value) for name, _, value in kept.figures if name.startswith("test/")} == {
        (r"test/news\x2fuk", 0.25),
        ("test/news_uk", 0.75),
    }


def test_without_matplotlib_there_are_figures_and_no_picture(stream, tiny, short, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    kept, bar = Kept(), Plug()
    learn(kept, stream, tiny, short, bar)
    assert not kept.pictures
    assert any("no picture of the matrix: pictures need matplotlib" in note for note in bar.notes)


@pytest.mark.parametrize("name", TRACKERS)
def test_a_tracker_whose_package_is_missing_is_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=rf"install it with `pip install 'memgrow\[{name}\]'`"):
        find_tracker(name, tmp_path, "model")
    with pytest.raises(SettingsError, match="there are tensorboard, trackio"):
        find_tracker("wand", tmp_path, "model")


@pytest.mark.parametrize(
    ("name", "command"),
    [("tensorboard", "tensorboard --logdir 'my runs'"), ("trackio", "TRACKIO_DIR='my runs' trackio show")],
)
def test_whoever_asks_for_a_tracker_is_told_how_to_watch_it(name, command, tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "find_tracker", lambda *_: Kept())
    bar = Plug()
    with learning.tracking(name, "my runs", tmp_path / "model", bar):
        assert bar.notes == [f"To watch it by {name}: {command}"]
    assert SHOWN.keys() == TRACKERS.keys()


def test_what_trackio_prints_goes_nowhere_and_it_has_nothing_left_to_say_as_python_ends(tmp_path, monkeypatch, capsys):
    finished: list[str] = []

    class Trackio(ModuleType):
        def init(self, **_: object) -> object:
            sys.stdout.write("* Trackio project initialized\n")
            return SimpleNamespace(finish=lambda: None)

        def finish(self) -> None:
            sys.stdout.write("* Run finished. Uploading logs\n")
            finished.append("by the module, which forgets the run")

    monkeypatch.setitem(sys.modules, "trackio", Trackio("trackio"))
    monkeypatch.setenv("TRACKIO_DIR", "elsewhere")  # put back at the end
    with Tracking(TRACKERS["trackio"](tmp_path, "model")):
        assert os.environ["TRACKIO_DIR"] == str(tmp_path)
    assert finished
    assert capsys.readouterr() == ("", "")


TRY = """
import sys
from dataclasses import replace
from pathlib import Path
from memgrow.data import synthetic_stream
from memgrow.evaluation.history import History, Stage
from memgrow.learner import Learner
from memgrow.evaluation.history import Grew
from memgrow.models import ModelSettings
from memgrow.report.tracking import Tracking, find_tracker
from memgrow.training.settings import TrainingSettings
stream = synthetic_stream(domains=2, train=24, validation=12, test=12, seed=3)
learner = Learner.create("F", model=ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4),
                         training=TrainingSettings(epochs=2, batch=12), device="cpu")
with Tracking(find_tracker(sys.argv[1], Path(sys.argv[2]), "model")) as tracked:
    learner.learn(stream, progress=tracked, on_stage=lambda stage, new: tracked.stage(learner.history))
"""


def run_in_a_process(name: str, folder: Path) -> None:
    if tracking.find_spec(name) is None:
        pytest.skip(f"{name} is not installed: `pip install 'memgrow[{name}]'`")
    done = subprocess.run(
        [sys.executable, "-c", TRY, name, str(folder)], check=True, timeout=300, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout == ""  # where a command prints JSON


@pytest.mark.extras
def test_tensorboard_reads_back_what_it_was_told(tmp_path):
    run_in_a_process("tensorboard", tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(tmp_path / "model"))
    found.Reload()
    assert {"loss/kitchen", "validation/harbour", "test/kitchen"} <= set(found.Tags()["scalars"])
    assert [event.step for event in found.Scalars("loss/kitchen")] == [1, 2]
    assert [event.step for event in found.Images("matrix")] == [1, 2]


@pytest.mark.extras
def test_trackio_reads_back_what_it_was_told(tmp_path):
    run_in_a_process("trackio", tmp_path)
    with closing(sqlite3.connect(tmp_path / "memgrow.db")) as file:
        rows = file.execute("select run_name, step, metrics from metrics").fetchall()
    assert {name for name, _, _ in rows} == {"model"}
    figures = [(step, name) for _, step, metrics in rows for name in json.loads(metrics)]
    assert {(1, "loss/kitchen"), (2, "validation/harbour"), (2, "test/kitchen"), (2, "matrix")} <= set(figures)
