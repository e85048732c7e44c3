"""Kernels are compiled in the background, each once; no compiler and no GPU is needed to see that."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from memgrow.nn.kernels.cuda import cluster, nvrtc
from memgrow.nn.kernels.cuda.cluster_plan import Sizes
from memgrow.nn.kernels.cuda.nvrtc import UnavailableError

DEVICE = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def nothing_begun(monkeypatch):
    monkeypatch.setattr(nvrtc, "_begun", {})
    monkeypatch.setattr(nvrtc, "_architecture", lambda device: "sm_90")
    monkeypatch.setattr(nvrtc, "_at_once", threading.Semaphore(2))


def code_of(defines):
    return nvrtc._compiled(("some.cu", nvrtc._sorted(defines), "sm_90"))


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


def test_whoever_needs_a_program_gets_the_error_of_compiling_it(monkeypatch):
    def compiled(source, defines, architecture):
        raise UnavailableError("compiling some.cu failed: no such thing")

    monkeypatch.setattr(nvrtc, "_compile", compiled)
    nvrtc.prepare("some.cu", {"A": 1}, DEVICE)
    with pytest.raises(UnavailableError, match="no such thing"):
        code_of({"A": 1})


def test_what_is_needed_now_does_not_wait_for_what_was_asked_for_before(monkeypatch):
    going_on, begun = threading.Event(), threading.Event()

    def compiled(source, defines, architecture):
        if dict(defines)["A"] != "now":
            begun.set()
            assert going_on.wait(30)
        return threading.current_thread().name.encode()

    monkeypatch.setattr(nvrtc, "_compile", compiled)
    monkeypatch.setattr(nvrtc, "_at_once", threading.Semaphore(1))
    nvrtc.prepare("some.cu", {"A": "later"}, DEVICE)
    assert begun.wait(30)
    nvrtc.prepare("some.cu", {"A": "now"}, DEVICE)
    assert code_of({"A": "now"}) == threading.current_thread().name.encode()
    going_on.set()
    assert code_of({"A": "later"}) == b"compiling"
    assert code_of({"A": "now"}) == threading.current_thread().name.encode(), "it is not compiled once more"


@pytest.mark.parametrize("missing", ["the compiler", "room"])
def test_where_kernels_cannot_be_had_there_is_no_room_for_clusters(missing, monkeypatch):
    def unavailable(*_):
        raise UnavailableError("the library NVRTC is not there")

    monkeypatch.setattr(nvrtc, "most_clusters", unavailable if missing == "the compiler" else lambda *_: 0)
    for known in (cluster.plan_for, cluster._room):
        known.cache_clear()
    assert cluster.plan_for(Sizes("lstm", 2, 64, 300, 500, 300), DEVICE) is None
    for known in (cluster.plan_for, cluster._room):
        known.cache_clear()


def test_many_who_need_the_same_at_once_get_it_once(monkeypatch):
    asked = []

    def compiled(source, defines, architecture):
        asked.append(dict(defines)["A"])
        return b"code"

    monkeypatch.setattr(nvrtc, "_compile", compiled)
    monkeypatch.setattr(nvrtc, "_at_once", threading.Semaphore(0))  # nothing gets its turn: who needs it does it
    meeting, finish = threading.Barrier(8, timeout=30), nvrtc._finish

    def slowly(*what):
        time.sleep(0.02)  # so that the others come in between
        finish(*what)

    def need(_):
        meeting.wait()
        return [code_of({"A": number}) for number in range(5)]

    monkeypatch.setattr(nvrtc, "_finish", slowly)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(need, range(8)))
    assert found == [[b"code"] * 5] * 8
    assert sorted(asked) == list(range(5))


def test_at_the_end_only_what_is_being_compiled_is_waited_for(monkeypatch):
    begun, going_on, done = threading.Event(), threading.Event(), []

    def compiled(source, defines, architecture):
        begun.set()
        assert going_on.wait(30)
        done.append(dict(defines)["A"])
        return b"code"

    monkeypatch.setattr(nvrtc, "_compile", compiled)
    monkeypatch.setattr(nvrtc, "_at_once", threading.Semaphore(1))
    nvrtc.prepare("some.cu", {"A": 1}, DEVICE)
    assert begun.wait(30)
    nvrtc.prepare("some.cu", {"A": 2}, DEVICE)
    threading.Timer(0.2, going_on.set).start()
    nvrtc._end()
    assert done == [1]
    assert all(future.done() for future in nvrtc._begun.values())
