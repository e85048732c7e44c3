"""What a training step frees on a CPU is kept for the next one, and given back when training ends."""

import ctypes
import resource
import threading
from pathlib import Path

import pytest
import torch

from memgrow import allocator
from memgrow.allocator import keeping_freed_memory

SIZE = 24 << 20  # numbers, in 96 MB: glibc itself keeps no such block
ROUNDS = 4

has_glibc = pytest.mark.skipif(allocator._glibc() is None, reason="this is another C library, or somebody has set it")


def faults() -> int:
    """Pages that the kernel had to give while such a block was taken, written and freed again and again."""
    torch.ones(SIZE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(ROUNDS):
        torch.ones(SIZE)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@has_glibc
def test_what_is_freed_is_kept_within_and_given_back_afterwards():
    usual = faults()
    if usual < 1000:
        pytest.skip("the kernel gives pages so large that nothing can be counted")
    before = resident_mib()
    with keeping_freed_memory():
        assert faults() * 10 < usual
        assert resident_mib() > before + 60
    assert resident_mib() < before + 30
    assert faults() > usual / 2


@has_glibc
def test_the_last_of_several_trainings_gives_memory_back():
    first, second = threading.Event(), threading.Event()

    def train():
        with keeping_freed_memory():
            first.set()
            second.wait(60)

    thread = threading.Thread(target=train)
    thread.start()
    assert first.wait(60)
    with keeping_freed_memory():
        pass
    kept, usual = allocator._within, faults()
    second.set()
    thread.join()
    assert (kept, allocator._within) == (1, 0)
    assert usual * 10 < faults() or faults() < 1000


def test_an_error_within_ends_it():
    with pytest.raises(ZeroDivisionError), keeping_freed_memory():
        raise ZeroDivisionError
    assert allocator._within == 0


@pytest.mark.parametrize("name", allocator.SAID)
def test_what_somebody_has_set_is_left_alone(name, monkeypatch):
    monkeypatch.setenv(name, "glibc.malloc.check=1")
    assert allocator._glibc() is None
    with keeping_freed_memory():
        assert allocator._within == 0


def test_another_c_library_is_left_alone(monkeypatch):
    for name in allocator.SAID:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert allocator._glibc() is None
