"""Devices and CPU threads."""

import threading

import pytest
import torch

from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.nn import device
from memgrow.nn.device import SMALL_STEP, THREAD_VARIABLES, find_device, suited_threads, using_threads
from memgrow.training.settings import PAPER, SMALL, SMALL_REPLIES, defaults_for_device

CPU = torch.device("cpu")


@pytest.fixture
def four_threads(monkeypatch):
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    torch.set_num_threads(4)
    monkeypatch.setattr(device, "_usual", 4)
    monkeypatch.setattr(device, "_said", False)


def test_small_models_use_one_thread_unless_told_otherwise(four_threads, monkeypatch):
    assert suited_threads(CPU, SMALL_STEP - 1) == 1
    assert suited_threads(CPU, SMALL_STEP) == 4
    assert suited_threads(CPU, 1, asked=3) == 3
    torch.set_num_threads(2)  # the user's own choice
    assert suited_threads(CPU, 1) == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert suited_threads(CPU, 1) == 2
    with pytest.raises(SettingsError, match="threads"):
        suited_threads(CPU, 1, asked=0)


def test_threads_are_restored_also_from_several_python_threads(four_threads):
    with using_threads(2):
        assert torch.get_num_threads() == 2
        other = threading.Thread(target=lambda: using_threads(3).__enter__())
        other.start()
        other.join()
    assert torch.get_num_threads() == 4


def test_a_device_is_found_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == CPU
    for name in ("tpu", "cuda"):
        with pytest.raises(SettingsError, match=r"device"):
            find_device(name)


def test_default_sizes_suit_the_device():
    assert defaults_for_device(CPU) == SMALL
    assert defaults_for_device(CPU, replies=True) == SMALL_REPLIES
    assert defaults_for_device(torch.device("cuda")) == PAPER
    assert Learner.create(encoder="lstm", device="cpu").settings == SMALL.model
    assert Learner.create(task="reply", device="cpu").method.name == SMALL_REPLIES.method
