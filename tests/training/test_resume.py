"""A run that was killed and started again ends with the same bits as one that was not."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from memgrow import folder_writer
from memgrow.errors import ModelError
from memgrow.folder_reader import read_folder
from memgrow.folder_writer import write_folder
from memgrow.learner import Learner
from memgrow.methods import METHODS, MethodSettings
from memgrow.models import ModelSettings
from memgrow.storage import load_json, load_tensors, pack_json
from memgrow.training.resume import Position, ResumeFolder
from memgrow.training.settings import TrainingSettings
from memgrow.unwritten_tensors import UnwrittenTensors
from tests.support.breaking import FIRST, LAST, Plug, PulledPlug, keep_epoch
from tests.support.new_labels import with_label


@pytest.fixture(autouse=True)
def every_step_reports(monkeypatch):
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)


def make(method: str = "F+M+V", seed: int = 0) -> Learner:
    return Learner.create(
        method,
        model=ModelSettings(embedding=6, hidden=5, slots=4, perceptron=16, dropout=0.2),
        training=TrainingSettings(rate=0.01, batch=16, epochs=3),
        options=MethodSettings(fisher_examples=5),
        seed=seed,
        device="cpu",
    )


def files(folder: Path) -> dict[str, bytes]:
    """All that must be the same; history.json holds the seconds, which may differ."""
    found = (path for path in folder.iterdir() if path.is_file())
    return {path.name: path.read_bytes() for path in found if path.name not in ("history.json", "manifest.json")}


OWN = ("F", "EWC", "F+H+V", "Progressive", "frozen+M", "F+V+A+E")  # the others combine what these have
ALONE = [
    *(name for name, method in METHODS.items() if not (method.together or method.needs(ModelSettings()))),
    "F+V+A+E",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kept"),
    [
        *(pytest.param(name, LAST, marks=() if name in OWN else pytest.mark.extras) for name in ALONE),
        ("F+M+V", FIRST),
        pytest.param("F+V+A+E", FIRST, marks=pytest.mark.extras),
    ],
)
def test_a_run_broken_off_again_and_again_ends_with_the_same_bits(method, kept, stream, tmp_path, monkeypatch):
    """The second domain brings a label that the first did not have."""
    keep_epoch(kept, monkeypatch)
    domains = (stream[0], with_label(stream[1]))
    for domain in domains:
        (make(method) if domain is stream[0] else Learner.load(tmp_path / "whole")).adapt(
            domain, folder=tmp_path / "whole"
        )
    rng = random.Random(5)
    broken = 0
    for domain in domains:
        while True:
            learner = Learner.load(tmp_path / "broken") if domain is not stream[0] else make(method)
            try:
                learner.adapt(domain, folder=tmp_path / "broken", save_every=0, progress=Plug(rng.randrange(1, 6)))
                break
            except PulledPlug:
                broken += 1
    assert broken >= 2
    curves = []
    for name in ("whole", "broken"):
        stages = Learner.load(tmp_path / name).history.stages
        assert {stage.best_epoch for stage in stages} == {3 if kept == LAST else 1}
        curves.append([stage.curve.loss for stage in stages])  # validation is what the test says
    assert curves[0] == curves[1]
    assert files(tmp_path / "whole") == files(tmp_path / "broken")
    assert not (tmp_path / "broken.adapting").exists()


def test_a_failed_adaptation_leaves_learner_and_folder_as_they_were(stream, tmp_path):
    learner = make()
    learner.adapt(stream[0], folder=tmp_path / "model")
    before, saved = {n: t.clone() for n, t in learner.trained().state_dict().items()}, files(tmp_path / "model")
    with pytest.raises(PulledPlug):
        learner.adapt(stream[1], folder=tmp_path / "model", progress=Plug(2))
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.trained().state_dict().items())
    assert learner.history.domains == (stream[0].name,)
    assert files(tmp_path / "model") == saved


def test_an_unfinished_run_on_other_data_or_settings_is_not_taken_for_this_one(stream, tmp_path):
    with pytest.raises(PulledPlug):
        make().adapt(stream[0], folder=tmp_path / "model", save_every=0, progress=Plug(2))
    with pytest.raises(ModelError, match=r"another data: finish that one first"):
        make().adapt(stream[1], folder=tmp_path / "model")
    with pytest.raises(ModelError, match=r"another settings"):
        make(seed=1).adapt(stream[0], folder=tmp_path / "model")
    make().adapt(stream[0], folder=tmp_path / "model")


def test_the_callers_random_numbers_are_left_alone(stream):
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    make().adapt(stream[0])
    assert torch.equal(torch.rand(3), expected)


def test_another_seed_gives_another_model(stream):
    weights = []
    for seed in (0, 0, 1):
        learner = make(seed=seed)
        learner.adapt(stream[0])
        weights.append(learner.trained().heads[0][0].weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


CHILD = """
import sys
import torch
torch.set_num_threads(1)
from memgrow.data import synthetic_stream
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.progress import NoProgress
from memgrow.training.settings import TrainingSettings
class Told(NoProgress):
    def step(self, step):
        print(step.epoch, flush=True)
settings = ModelSettings(embedding=8, hidden=8, slots=8, perceptron=16, dropout=0.2)
learner = Learner.create(model=settings, training=TrainingSettings(rate=0.01, batch=8, epochs=4), device="cpu")
domain = synthetic_stream(domains=1, train=240, validation=40, test=20)[0]
learner.adapt(domain, folder=sys.argv[1], save_every=0, progress=Told())
"""


@pytest.mark.slow
@pytest.mark.extras
def test_a_process_killed_at_some_moment_goes_on_and_ends_with_the_same_bits(tmp_path):
    def start(folder: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD, str(tmp_path / folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)

    def epochs(process: subprocess.Popen[str]) -> list[int]:
        said, _ = process.communicate()
        assert process.returncode == 0
        return sorted({int(line) for line in said.splitlines()})

    assert epochs(start("whole")) == [1, 2, 3, 4]
    process = start("killed")
    assert process.stdout is not None
    while process.stdout.readline() != "2\n":  # some moment into an epoch; `make torture` kills at many others
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed").exists()
    assert 1 not in epochs(start("killed")), "it did not go on, but began again"
    assert files(tmp_path / "whole") == files(tmp_path / "killed")


@pytest.mark.parametrize("cost", [1.0, 3.0], ids=["as expected", "on a slow disk"])
def test_saving_takes_a_tenth_of_the_time_at_most_however_short_the_epochs(cost, tmp_path, monkeypatch):
    now, writes, epoch, state = 0.0, 0, 0.7, {"x": torch.empty(100, 1000)}
    monkeypatch.setattr("memgrow.training.resume.BYTES_PER_S", 4e5)  # it is expected to take a second

    def write(folder, files, version, like):
        nonlocal now, writes
        now, writes = now + cost, writes + 1

    monkeypatch.setattr("memgrow.training.resume.time.monotonic", lambda: now)
    monkeypatch.setattr("memgrow.training.resume.write_folder", write)
    folder = ResumeFolder(tmp_path / "state", 0, {}, every=60.0)
    for done in range(1, 1001):
        now += epoch
        if folder.due_after_epoch(state):
            folder.save(Position(done), state, torch.device("cpu"))
        assert (writes - 1) * cost <= 0.1 * done * epoch
    assert (writes + 1) * cost >= 0.09 * 1000 * epoch


def test_a_run_that_goes_on_says_so(stream, tmp_path):
    first, second = Plug(1), Plug()
    with pytest.raises(PulledPlug):
        make().adapt(stream[0], folder=tmp_path / "model", save_every=0, progress=first)
    assert not any("resuming" in note for note in first.notes)
    make().adapt(stream[0], folder=tmp_path / "model", progress=second)
    assert f"{stream[0].name}: resuming in epoch 1 after batch 1" in second.notes


@pytest.mark.parametrize("half", [False, True], ids=["all of it left", "half of it left"])
def test_a_run_killed_after_it_was_saved_does_not_stand_in_the_way_of_the_next(half, stream, tmp_path, monkeypatch):
    def killed(self) -> None:
        if half:
            (self.folder / "manifest.json").unlink()
        raise PulledPlug

    with monkeypatch.context() as patch:
        patch.setattr(ResumeFolder, "clear", killed)
        with pytest.raises(PulledPlug):
            make().adapt(stream[0], folder=tmp_path / "model", save_every=0)
    assert (tmp_path / "model.adapting").exists()
    learner = Learner.load(tmp_path / "model")
    assert learner.history.domains == (stream[0].name,)
    learner.learn(stream[:2], folder=tmp_path / "model")
    assert [stage.learned for stage in learner.history.stages] == [(name,) for name in stream[:2].names]
    assert not (tmp_path / "model.adapting").exists()


def fewer_numbers(state: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        tensors[name] = tensor if name.startswith("chance/") else tensor.flatten()[:1]


def fewer_moments(state: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        tensors[name] = tensor.flatten()[:1] if name.startswith("optimiser/exp_avg/") else tensor


SPOILT = {
    "a word for an epoch": lambda state, tensors: state["position"].update(epoch="two"),
    "a curve of words": lambda state, tensors: state["position"].update(curve={"loss": ["a"], "validation": [0.5]}),
    "a curve with a hole": lambda state, tensors: state["position"].update(curve={"loss": [], "validation": [0.5]}),
    "no position": lambda state, tensors: state.pop("position"),
    "a list for the key": lambda state, tensors: state.update(key=[]),
    "a word for the stage": lambda state, tensors: state.update(stage="first"),
    "no chance": lambda state, tensors: tensors.pop("chance/cpu"),
    "another chance": lambda state, tensors: tensors.update({"chance/cpu": torch.zeros(3)}),
    "no tensors": lambda state, tensors: [tensors.pop(n) for n in list(tensors) if not n.startswith("chance/")],
    "fewer numbers": fewer_numbers,
    "fewer moments": fewer_moments,
}


@pytest.fixture(scope="module")
def unfinished(stream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unfinished")
    with pytest.raises(PulledPlug):
        make().adapt(stream[0], folder=folder / "model", save_every=0, progress=Plug(2))
    return folder / "model.adapting"


@pytest.mark.parametrize("name", SPOILT)
def test_a_state_of_wrong_kinds_with_a_right_checksum_is_a_sentence(name, unfinished, stream, tmp_path):
    kept = read_folder(unfinished, 2)
    state, tensors = load_json(kept, "state.json"), load_tensors(kept, "state.safetensors")
    SPOILT[name](state, tensors)
    spoilt = {"state.json": pack_json(state), "state.safetensors": UnwrittenTensors.of(tensors)}
    write_folder(tmp_path / "model.adapting", spoilt, 2)
    with pytest.raises(ModelError, match="no unfinished adaptation that can be taken up") as caught:
        make().adapt(stream[0], folder=tmp_path / "model")
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def test_what_is_left_of_a_training_that_was_saved_goes_also_where_there_is_nothing_new(stream, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(ResumeFolder, "clear", lambda self: None)  # killed just before
        make().learn(stream[:1], folder=tmp_path / "m", save_every=0)
    assert (tmp_path / "m.adapting").exists()
    Learner.load(tmp_path / "m", "cpu").learn(stream[:1], folder=tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_so_does_a_version_that_a_writer_had_no_time_to_remove(stream, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_writer, "replaceable", lambda path: path.name != "m")  # as a mount point
    (tmp_path / "m").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(folder_writer, "_clear_versions", lambda path: None)  # killed just before
        make().learn(stream[:2], folder=tmp_path / "m", keep_versions=0)
    assert len(list((tmp_path / "m").glob("version-*"))) == 2
    Learner.load(tmp_path / "m", "cpu").learn(stream[:2], folder=tmp_path / "m")
    assert len(list((tmp_path / "m").glob("version-*"))) == 1
    assert Learner.load(tmp_path / "m", "cpu").history.domains == tuple(stream.names[:2])


def test_an_unfinished_training_stays_where_there_is_nothing_new(stream, tmp_path):
    make().adapt(stream[0], folder=tmp_path / "m")
    with pytest.raises(PulledPlug):
        Learner.load(tmp_path / "m", "cpu").adapt(stream[1], folder=tmp_path / "m", save_every=0, progress=Plug(2))
    Learner.load(tmp_path / "m", "cpu").learn(stream[:1], folder=tmp_path / "m")
    assert (tmp_path / "m.adapting").exists()
