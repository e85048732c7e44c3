"""A GPU is woken once, and it is the one that will be used. No GPU is needed to see that."""

import threading

import pytest
import torch

from memgrow import device as waking


@pytest.fixture
def woken(monkeypatch):
    found = []
    monkeypatch.setattr(waking, "_stir", found.append)
    waking._wake.cache_clear()
    yield found
    waking._wake.cache_clear()


def wake(*devices):
    for device in devices:
        waking.wake(torch.device(device))
    for thread in threading.enumerate():
        if thread.name == "waking":
            thread.join()


def test_a_cpu_is_awake(woken):
    wake("cpu")
    assert woken == []


def test_each_is_woken_once(woken):
    wake("cuda:1", "cuda:1", "cuda:0")
    assert woken == [torch.device("cuda", 1), torch.device("cuda", 0)]


@pytest.mark.parametrize("chosen", [None, 2])
def test_without_a_number_it_is_the_current_one(chosen, woken, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: chosen is not None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: chosen)
    wake("cuda")
    assert woken == [torch.device("cuda", chosen or 0)]


def test_a_device_that_fails_is_left_to_those_who_use_it(monkeypatch):
    asked = []

    def broken(*_, device):
        asked.append(device)
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch, "ones", broken)
    waking._stir(torch.device("cuda", 3))
    assert asked == [torch.device("cuda", 3)]
