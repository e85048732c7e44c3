"""The large products around the GPU's kernels, and the order of columns, with a kernel on the CPU in their place."""

import pytest
import torch

from memgrow.nn import MemoryGRU, MemoryLSTM
from memgrow.nn.kernels.cuda import gemms
from tests.support.layers import LENGTHS, SIZES, distance, results, twins


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lengths", [LENGTHS["one row"], LENGTHS["ragged"]], ids=["one row", "ragged"])
@pytest.mark.parametrize("sizes", [SIZES["odd"], SIZES["no memory"]], ids=["odd", "no memory"])
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both directions"])
@pytest.mark.parametrize("costs", [False, True], ids=["through slots", "through contents"])
def test_the_products_around_a_kernel_give_every_gradient(kind, sizes, lengths, both, costs, on_the_cpu, monkeypatch):
    monkeypatch.setattr(gemms, "_slots_cost_more", lambda *_: costs)
    fast, plain = twins(kind, sizes, "auto", biased=True, bidirectional=both)
    sequences = [torch.randn(length, sizes[0]) for length in lengths]
    ours = results(fast, sequences)
    with pytest.MonkeyPatch.context() as undone:
        undone.setattr("memgrow.nn.kernels.choose", lambda *_: ("naive", "asked for"))
        theirs = results(plain, [s.double() for s in sequences])
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if value.norm() > 1e-8:
            assert distance(ours[name], value) < 1e-5, name
