"""One model trained by two processes that meet over Gloo: as by one, also after a kill, and none outlives the first."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.support.tiny_encoder import make_encoder

pytestmark = pytest.mark.extras  # each command imports torch and transformers in two processes

SETTINGS = (
    "epochs=3",
    "patience=3",
    "batch=16",
    "rate=0.001",
    "precision=float32",
    "options.slots=4",
    "fisher_examples=4",
)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "2"}
MAIN = "from memgrow.cli import main; main()"
# A signal for one of the processes in the second epoch, by its number.
KILLING = """
import multiprocessing, os, signal, sys
from memgrow.report.progress_bars import TrainingBar
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell takes it from what runs in the background
def kill(bar, step):
    if step.epoch == 2:
        others = [child.pid for child in multiprocessing.active_children()]
        print("others:", *others, flush=True)
        os.kill([os.getpid(), *others][{number}], signal.{signal})
TrainingBar.step = kill
"""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture
def adapt(encoder, data, tmp_path):
    def run(model: str, processes: int, *words: str, before: str = "") -> subprocess.CompletedProcess[str]:
        command = ["adapt", tmp_path / model, data["kitchen"], data["harbour"], "--encoder", encoder]
        command += ["--device", "cpu", "--processes", processes, *words]
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        given = [sys.executable, "-c", before + MAIN, *map(str, command), *settings]
        return subprocess.run(given, capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False)

    return run


def gone(pid: int) -> bool:
    """Whether a process ends within some seconds."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("method", ["EWC+M", "ridge"])
def test_two_processes_learn_what_one_learns(method, adapt, tmp_path):
    words = ("--method", method, "--set", "dropout=0")
    for processes in (1, 2):
        done = adapt(f"by-{processes}", processes, *words)
        assert done.returncode == 0, done.stderr
    assert "shared by 2 processes of 1 thread(s)" in " ".join(done.stdout.split())
    alone, together = (load_file(tmp_path / f"by-{count}" / "model.safetensors") for count in (1, 2))
    for name, weight in alone.items():
        difference = (weight - together[name]).norm()
        # Where a gradient is next to nothing, rounding turns its sign: then Adam moves the other way.
        assert difference <= 1e-3 * weight.norm() + 2e-3 * weight.numel() ** 0.5, name


def test_a_run_whose_first_process_is_killed_goes_on_to_the_same_bits(adapt, tmp_path):
    words = ("--method", "F+M", "--set", "dropout=0.2")
    assert adapt("whole", 2, *words).returncode == 0
    killed = adapt("broken", 2, *words, before=KILLING.format(number=0, signal="SIGKILL"))
    assert killed.returncode == -9
    others = [int(pid) for pid in killed.stdout.split("others:")[1].split()]
    assert len(others) == 1
    assert all(map(gone, others))
    again = adapt("broken", 2, *words)
    assert again.returncode == 0, again.stderr
    assert "resuming in epoch" in again.stdout
    whole, broken = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    for name, weight in whole.items():
        assert torch.equal(weight, broken[name]), name


@pytest.mark.parametrize(("number", "signal", "code"), [(1, "SIGKILL", 2), (0, "SIGTERM", 143), (0, "SIGINT", 130)])
def test_all_end_when_one_does_and_say_one_sentence(number, signal, code, adapt, tmp_path):
    ended = adapt("m", 2, before=KILLING.format(number=number, signal=signal))
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.count("\n") == 1
    said = "memgrow: process 2 of 2 died (signal SIGKILL)" if number else "memgrow: stopped; what was saved before"
    assert ended.stderr.startswith(said)
    assert all(map(gone, [int(pid) for pid in ended.stdout.split("others:")[1].split()[:1]]))
    assert [path.name for path in tmp_path.iterdir()] == ["m.adapting"]
