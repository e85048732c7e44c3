"""Kernels are compiled in the background, each once; no compiler and no GPU is needed to see that."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from memgrow.nn.kernels import nvrtc
from memgrow.nn.kernels.nvrtc import UnavailableError

DEVICE = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def nothing_begun(monkeypatch):
    monkeypatch.setattr(nvrtc, "_begun", {})
    monkeypatch.setattr(nvrtc, "_architecture", lambda device: "sm_90")
    with ThreadPoolExecutor(2) as workers:
        monkeypatch.setattr(nvrtc, "_workers", lambda: workers)
        yield


def code_of(defines):
    return nvrtc._compiling("some.cu", nvrtc._sorted(defines), "sm_90").result(timeout=30)


def test_a_program_is_compiled_once_for_all_who_ask(monkeypatch):
    asked = []

    def compiled(source, defines, architecture):
        asked.append((source, defines, architecture))
        return repr(defines).encode()

    monkeypatch.setattr(nvrtc, "_compile", compiled)
    nvrtc.prepare("some.cu", {"B": 2, "A": 1}, DEVICE)
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: code_of({"A": 1, "B": 2}), range(40)))
    assert found == {b"(('A', 1), ('B', 2))"}
    assert asked == [("some.cu", (("A", 1), ("B", 2)), "sm_90")]


def test_programs_are_compiled_side_by_side_while_the_caller_goes_on(monkeypatch):
    meeting = threading.Barrier(3, timeout=30)  # two of them, and this thread

    def compiled(source, defines, architecture):
        meeting.wait()
        return b"code"

    monkeypatch.setattr(nvrtc, "_compile", compiled)
    for number in (1, 2):
        nvrtc.prepare("some.cu", {"A": number}, DEVICE)
    meeting.wait()
    assert code_of({"A": 1}) == code_of({"A": 2}) == b"code"


def test_what_cannot_be_compiled_is_told_to_who_needs_it(monkeypatch):
    def compiled(source, defines, architecture):
        raise UnavailableError("compiling some.cu failed: no such thing")

    monkeypatch.setattr(nvrtc, "_compile", compiled)
    nvrtc.prepare("some.cu", {"A": 1}, DEVICE)
    with pytest.raises(UnavailableError, match="no such thing"):
        code_of({"A": 1})
