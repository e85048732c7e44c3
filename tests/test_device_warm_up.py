"""A GPU is warmed up once, and it is the one that will be used. No GPU is needed to see that."""

import threading

import pytest
import torch

from memgrow import device as devices


@pytest.fixture
def warmed(monkeypatch):
    found = []
    monkeypatch.setattr(devices, "_load", found.append)
    devices._warm_up_once.cache_clear()
    yield found
    devices._warm_up_once.cache_clear()


def warm_up(*names):
    for name in names:
        devices.warm_up(torch.device(name))
    for thread in threading.enumerate():
        if thread.name == "warm-up":
            thread.join()


def test_a_cpu_needs_no_warm_up(warmed):
    warm_up("cpu")
    assert warmed == []


def test_each_gpu_is_warmed_up_once(warmed):
    warm_up("cuda:1", "cuda:1", "cuda:0")
    assert warmed == [torch.device("cuda", 1), torch.device("cuda", 0)]


@pytest.mark.parametrize("chosen", [None, 2])
def test_without_a_number_it_is_the_current_one(chosen, warmed, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: chosen is not None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: chosen)
    warm_up("cuda")
    assert warmed == [torch.device("cuda", chosen or 0)]


def test_a_device_that_fails_is_left_to_those_who_use_it(monkeypatch):
    asked = []

    def broken(*_, device):
        asked.append(device)
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch, "ones", broken)
    devices._load(torch.device("cuda", 3))
    assert asked == [torch.device("cuda", 3)]
