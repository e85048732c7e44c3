"""Two processes train as one does; the first one alone writes; they end together, and the next run resumes."""

import json
import signal
import sys

import pytest
import torch

from memgrow import Learner, Stream
from memgrow.data import write_jsonl
from memgrow.errors import MissingExtraError, SettingsError
from memgrow.methods import MethodSettings, find_method
from memgrow.models import ModelSettings
from memgrow.nn import distributed
from memgrow.training.adapt import check_learnable
from memgrow.training.checks import check_stage
from memgrow.training.progress import ResumeFolder
from memgrow.training.settings import LearnerConfig, TrainingSettings
from tests.support.tiny_encoder import make_encoder
from tests.support.together import CASES, learn, start_two

TOGETHER = ("-m", "tests.support.together")


def outputs(processes):
    ended = [(*process.communicate(timeout=300), process.returncode) for process in processes]
    assert [code for _, _, code in ended] == [0, 0], ended
    return [output for output, _, _ in ended]


@pytest.mark.slow
def test_two_processes_train_as_one_does_and_the_first_one_alone_writes(tmp_path):
    encoder = make_encoder(tmp_path / "encoder")
    names = [name for name, case in CASES.items() if not case.dropout]
    processes = start_two(*TOGETHER, str(encoder), str(tmp_path / "process{rank}"), *names)
    alone = {name: learn(name, encoder, tmp_path / "alone" / name) for name in names}
    first, second = outputs(processes)
    assert "1 4" in first
    assert not second
    assert [path.name for path in tmp_path.glob("process*")] == ["process0"]
    for name, expected in alone.items():
        found = Learner.load(tmp_path / "process0" / name, "cpu")
        assert len(list((tmp_path / "process0" / name / "versions").iterdir())) == 2
        for stage, other in zip(found.history.stages, expected.history.stages, strict=True):
            assert stage.curve.loss == pytest.approx(other.curve.loss, abs=1e-5), name
            assert stage.curve.validation == pytest.approx(other.curve.validation, abs=1e-5), name
        weights = expected.trained().state_dict()
        for key, tensor in found.trained().state_dict().items():
            close = 1e-3 if key.startswith("memory.") else 1e-5  # entries are kept in half precision
            torch.testing.assert_close(tensor, weights[key], atol=1e-5, rtol=close, msg=f"{name}: {key}")


@pytest.mark.slow
def test_a_killed_process_ends_the_other_and_the_next_run_resumes_to_the_same_bits(tmp_path):
    whole = start_two(*TOGETHER, "-", str(tmp_path / "whole"), "long")
    outputs(whole)
    first, second = start_two(*TOGETHER, "-", str(tmp_path / "killed"), "long")
    for line in first.stdout:
        if line.startswith("harbour 3"):
            break
    second.send_signal(signal.SIGKILL)
    _, complaint = first.communicate(timeout=120)
    second.communicate()
    assert first.returncode
    assert "another process of this training has ended" in complaint
    assert Learner.load(tmp_path / "killed/long", "cpu").history.domains == ("kitchen",)
    said, _ = outputs(start_two(*TOGETHER, "-", str(tmp_path / "killed"), "long"))
    assert "harbour: resuming in epoch 3" in said or "harbour: resuming in epoch 4" in said
    unbroken, resumed = (Learner.load(tmp_path / name / "long", "cpu").trained() for name in ("whole", "killed"))
    for key, tensor in unbroken.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[key]), key


@pytest.mark.slow
def test_the_command_prints_and_writes_once(stream, tmp_path):
    data = map(str, write_jsonl(Stream(stream[:2]), tmp_path / "data"))
    command = ["-m", "memgrow", "adapt", str(tmp_path / "model"), *data, "--recipe", "demo", "--json"]
    first, second = outputs(start_two(*command, "--method", "finetune", "--set", "epochs=1", "--device", "cpu"))
    assert len(json.loads(first)["stages"]) == 2
    assert not second
    assert sorted(path.name for path in (tmp_path / "model/versions").iterdir()) == ["0001", "0002"]


def test_processes_with_different_data_are_refused(monkeypatch):
    monkeypatch.setattr(distributed, "exchange", lambda value: [value, ({"data": "other"}, None)])
    with pytest.raises(SettingsError, match="the processes have different data"):
        ResumeFolder(None, 0, {"data": "ours"}, 0).restore()


def test_without_accelerate_the_extra_is_named(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(MissingExtraError, match=r"memgrow\[distributed\]"):
        distributed.join("cpu")


@pytest.mark.parametrize("name", ["gem", "a-gem", "si"])
def test_methods_that_need_whole_batches_are_refused(name, stream, monkeypatch):
    config = LearnerConfig(find_method(name), ModelSettings(), TrainingSettings(), MethodSettings(), 0)
    stage = check_stage(stream[:1], None, None)
    check_learnable(config, stage)
    monkeypatch.setattr(distributed, "process_count", lambda: 2)
    with pytest.raises(SettingsError, match="one process only"):
        check_learnable(config, stage)
