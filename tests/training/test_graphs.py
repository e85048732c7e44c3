"""Work that is recorded once for each length; the GPU's graphs are played by the CPU here."""

import pytest
import torch

from memgrow.training import graphs
from memgrow.training.graphs import Graphs


class Played:
    """A graph whose replay does the work again."""

    def __init__(self, work):
        self.replay = work


@pytest.fixture
def on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "Stream", lambda: None)
    monkeypatch.setattr(graphs, "captured", lambda work, stream, pool: (Played(work), work))


def test_the_second_call_of_a_length_is_recorded_and_later_ones_are_replayed(on_the_cpu, monkeypatch):
    # As tests/gpu/test_encoders.py watches it.
    lengths: list[int] = []
    record = Graphs._recorded
    monkeypatch.setattr(Graphs, "_recorded", lambda self, length: lengths.append(length) or record(self, length))
    done: list[int] = []
    run = Graphs(done.append, torch.device("cuda"))
    for length in (3, 5, 3, 3, 5, 3):
        run(length)
    assert done == [3, 5, 3, 3, 5, 3]
    assert lengths == [3, 5]


def test_without_a_gpu_nothing_is_recorded():
    done: list[int] = []
    run = Graphs(done.append, torch.device("cpu"))
    for _ in range(3):
        run(4)
    assert done == [4, 4, 4]
