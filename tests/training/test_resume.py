"""A run that was killed and started again ends with the same bits as one that was not."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from memgrow.errors import ModelError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.progress import ResumeFolder
from memgrow.training.settings import TrainingSettings
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
        options=MethodSettings(fisher_examples=5, smooth="auto"),
        seed=seed,
        device="cpu",
    )


def assert_same(one: Path, other: Path) -> None:
    """Same weights, same method state, same curves."""
    ours, theirs = Learner.load(one, "cpu"), Learner.load(other, "cpu")
    for a, b in (
        (ours.trained().state_dict(), theirs.trained().state_dict()),
        (ours.state.method_state.state_dict(), theirs.state.method_state.state_dict()),
    ):
        assert a.keys() == b.keys()
        assert all(torch.equal(tensor, b[name]) for name, tensor in a.items())
    assert ours.vocabulary == theirs.vocabulary
    assert [stage.curve.loss for stage in ours.history.stages] == [stage.curve.loss for stage in theirs.history.stages]


@pytest.mark.parametrize(
    ("method", "kept"),
    [
        *((name, LAST) for name in ("F", "EWC", "SI", "F+H+V", "Progressive", "frozen+M", "F+V+A+E", "F+V+R")),
        ("F+M+V", FIRST),
    ],
)
def test_a_run_broken_off_again_and_again_ends_with_the_same_bits(method, kept, stream, tmp_path, monkeypatch):
    keep_epoch(kept, monkeypatch)
    domains = (stream[0], with_label(stream[1]))
    rng, broken = random.Random(5), 0
    for number, domain in enumerate(domains):
        whole = make(method) if number == 0 else Learner.load(tmp_path / "whole")
        whole.adapt(domain, folder=tmp_path / "whole")
    for number, domain in enumerate(domains):
        while True:
            learner = make(method) if number == 0 else Learner.load(tmp_path / "broken")
            try:
                learner.adapt(domain, folder=tmp_path / "broken", save_every=0, progress=Plug(rng.randrange(1, 6)))
                break
            except PulledPlug:
                broken += 1
    assert broken >= 2
    stages = Learner.load(tmp_path / "broken").history.stages
    assert {stage.best_epoch for stage in stages} == {3 if kept == LAST else 1}
    assert_same(tmp_path / "whole", tmp_path / "broken")


def test_a_failed_adaptation_leaves_learner_and_folder_as_they_were(stream, tmp_path):
    learner = make()
    learner.adapt(stream[0], folder=tmp_path / "model")
    before = {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}
    with pytest.raises(PulledPlug):
        learner.adapt(stream[1], folder=tmp_path / "model", progress=Plug(2))
    for one in (learner, Learner.load(tmp_path / "model", "cpu")):
        assert one.history.domains == (stream[0].name,)
        assert all(torch.equal(tensor, before[name]) for name, tensor in one.trained().state_dict().items())


def test_another_unfinished_run_is_not_taken_for_this_one(stream, tmp_path):
    with pytest.raises(PulledPlug):
        make().adapt(stream[0], folder=tmp_path / "model", save_every=0, progress=Plug(2))
    with pytest.raises(ModelError, match="another data"):
        make().adapt(stream[1], folder=tmp_path / "model")
    with pytest.raises(ModelError, match="another settings"):
        make(seed=1).adapt(stream[0], folder=tmp_path / "model")
    plug = Plug()
    make().adapt(stream[0], folder=tmp_path / "model", progress=plug)
    assert any("resuming" in note for note in plug.notes)


def test_state_left_by_a_run_that_was_saved_is_removed(stream, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(ResumeFolder, "clear", lambda self: None)  # killed just before
        make().learn(stream[:1], folder=tmp_path / "m", save_every=0)
    learner = Learner.load(tmp_path / "m", "cpu")
    learner.learn(stream[:2], folder=tmp_path / "m")
    assert learner.history.domains == tuple(stream.names[:2])


def test_one_seed_one_result_and_the_callers_random_numbers_are_left_alone(stream):
    weights = []
    torch.manual_seed(4)
    expected = torch.rand(3)
    for seed in (0, 0, 1):
        torch.manual_seed(4)
        learner = make(seed=seed)
        learner.adapt(stream[0])
        assert torch.equal(torch.rand(3), expected)
        weights.append(learner.trained().heads[0][0].weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


CHILD = """
import sys
import torch
torch.set_num_threads(1)
from memgrow import Learner, ModelSettings, TrainingSettings, synthetic_stream
class Told:
    def step(self, step):
        print(step.epoch, flush=True)
    def note(self, sentence):
        pass
settings = ModelSettings(embedding=8, hidden=8, slots=8, perceptron=16, dropout=0.2)
learner = Learner.create(model=settings, training=TrainingSettings(rate=0.01, batch=8, epochs=3), device="cpu")
domain = synthetic_stream(domains=1, train=160, validation=40, test=20)[0]
learner.adapt(domain, folder=sys.argv[1], save_every=0, progress=Told())
"""


def test_a_killed_process_goes_on_and_ends_with_the_same_bits(tmp_path):
    def start(folder: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD, str(tmp_path / folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)

    whole, process = start("whole"), start("killed")
    assert process.stdout is not None
    while process.stdout.readline() != "2\n":
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    whole.communicate()
    again = start("killed")
    said, _ = again.communicate()
    assert (whole.returncode, process.returncode, again.returncode) == (0, -signal.SIGKILL, 0)
    assert "1" not in said.split(), "it began again"
    assert_same(tmp_path / "whole", tmp_path / "killed")
