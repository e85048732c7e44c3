"""Where a model lives, in which precision a GPU multiplies, and its warm-up. No GPU is needed to see that."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from memgrow.cli.learning import open_or_create
from memgrow.cli.recipe import Recipe

from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.nn.device import (
    SAID,
    WORTHWHILE,
    allow_tf32,
    multiplies_bfloat16,
    set_threads,
    set_usual_threads,
    suited_threads,
    using_threads,
    warm_up,
    warm_up_gpu,
)


@pytest.fixture
def asked(monkeypatch):
    found = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", found.append)
    return found


def test_tf32_is_for_gpus(asked):
    allow_tf32(torch.device("cpu"))
    assert asked == []
    allow_tf32(torch.device("cuda", 0))
    assert asked == ["high"]


def test_a_command_that_trains_allows_it(asked, monkeypatch, tmp_path):
    for where in ("memgrow.learner", "memgrow.cli.recipe"):
        monkeypatch.setattr(f"{where}.find_device", lambda name: torch.device(name))
    open_or_create(tmp_path / "model", Recipe(), None, None, "cuda")
    assert asked == ["high"]


@pytest.fixture
def warmed(monkeypatch):
    """The devices that were warmed up; each fails, which is left to those who use it."""
    found = []

    def broken(*_, device):
        found.append(device)
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch, "ones", broken)
    warm_up_gpu.cache_clear()
    yield found
    warm_up_gpu.cache_clear()


def warm_up_all(*names):
    for name in names:
        warm_up(torch.device(name))
        for thread in threading.enumerate():
            if thread.name == "warm-up":
                thread.join()


def test_a_cpu_needs_no_warm_up(warmed):
    warm_up_all("cpu")
    assert warmed == []


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_each_gpu_is_warmed_up_once_and_may_fail(warmed):
    warm_up_all("cuda:1", "cuda:1", "cuda:0")
    assert warmed == [torch.device("cuda", 1), torch.device("cuda", 0)]


@pytest.mark.parametrize("chosen", [None, 2])
def test_without_a_number_it_is_the_current_one(chosen, warmed, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: chosen is not None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: chosen)
    warm_up_all("cuda")
    assert warmed == [torch.device("cuda", chosen or 0)]


@pytest.mark.parametrize("check", ["_is_avx512_bf16_supported", "_is_amx_tile_supported"])
def test_a_cpu_with_instructions_for_bfloat16_is_told_from_one_without(check, monkeypatch):
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False)
    multiplies_bfloat16.cache_clear()
    assert not multiplies_bfloat16("cpu")
    monkeypatch.setattr(torch.cpu, check, lambda: True)
    multiplies_bfloat16.cache_clear()
    assert multiplies_bfloat16("cpu")
    multiplies_bfloat16.cache_clear()
    assert multiplies_bfloat16("cuda")
    assert not multiplies_bfloat16("mps")


# Threads

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def four(monkeypatch):
    """A machine with four threads, of which nobody has said anything."""
    for name in SAID:
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    set_usual_threads(4)
    yield
    set_usual_threads(before)


def test_a_small_model_takes_one_thread_and_a_large_one_all(four):
    assert suited_threads(CPU, WORTHWHILE - 1) == 1
    assert suited_threads(CPU, WORTHWHILE) == 4
    assert suited_threads(GPU, 1) == 4  # where threads have little to do


def test_who_says_how_many_threads_is_heard(four, monkeypatch):
    assert suited_threads(CPU, 1, asked=4) == 4
    with using_threads(3):
        assert suited_threads(CPU, 1) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert suited_threads(CPU, 1) == 4
    with pytest.raises(SettingsError, match="threads must be at least 1, not 0"):
        suited_threads(CPU, 1, asked=0)
    with pytest.raises(SettingsError, match="threads must be at least 1, not -1"), using_threads(-1):
        pass


def test_who_says_the_usual_number_is_heard_too(four, monkeypatch):
    monkeypatch.setattr("memgrow.nn.device._said", False)
    set_threads(4)
    assert suited_threads(CPU, 1) == 4


def test_answers_too_take_the_threads_that_suit_the_model(four, monkeypatch, stream, tiny, short):
    learner, seen = Learner.create("F", model=tiny, training=short, device="cpu"), []
    learner.adapt(stream[0])
    logits = learner.classifier().logits
    monkeypatch.setattr(learner.model, "logits", lambda data: seen.append(torch.get_num_threads()) or logits(data))
    learner.predict([stream[0].test[0]])
    learner.confusion(stream[0])
    learner.correct(stream[0])
    assert seen == [1, 1, 1]
    assert torch.get_num_threads() == 4


def test_threads_that_overlap_leave_later_ones_the_count_that_was_there_before():
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    def first():
        with using_threads(1):
            first_in.set()
            assert second_in.wait(60)

    def second():
        assert first_in.wait(60)
        with using_threads(1):
            second_in.set()
            assert first_out.wait(60)

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(first), pool.submit(second)]
            asked[0].result()
            first_out.set()
            asked[1].result()
        with ThreadPoolExecutor(1) as later:
            assert later.submit(torch.get_num_threads).result() == 3
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
