"""Numbers stay numbers: logits far beyond the range of an exponential, thousands of slots, sequences of one."""

import pytest
import torch

from memgrow.nn import MemoryGRU, MemoryLSTM, MemoryRNN, ResidualMemory
from memgrow.nn.kernels import Memory, attend
from tests.support.layers import results

LARGE = (1e3, 1e10, 1e18)  # of a key's entries: the exponential of 89 is infinite already
LENGTHS = ([1], [1, 1, 1], [6, 1, 3])
FAST = [
    (MemoryLSTM, "stepped"),
    (MemoryGRU, "stepped"),
    (MemoryLSTM, "naive"),
    (MemoryGRU, "naive"),
    (MemoryRNN, "naive"),
]


def assert_finite(found):
    for name, tensor in found.items():
        assert bool(tensor.isfinite().all()), name


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize(("kind", "backend"), FAST)
def test_a_bank_with_huge_keys_gives_finite_states_and_gradients(kind, backend, size):
    torch.manual_seed(0)
    layer = kind(3, 4, slots=5, bidirectional=True, backend=backend)
    layer.grow(slots=2, quiet=1e4)
    with torch.no_grad():
        for bank in layer.banks:
            bank.keys.mul_(size)
    for lengths in LENGTHS:
        assert_finite(results(layer, [torch.randn(length, 3) for length in lengths]))


@pytest.mark.parametrize(("kind", "backend"), FAST[:3])
def test_thousands_of_slots_and_inputs_of_any_size_give_finite_numbers(kind, backend):
    torch.manual_seed(0)
    layer = kind(3, 4, slots=5000, backend=backend)
    for size in (0.0, 1e-30, 1e15):
        assert_finite(results(layer, [torch.randn(length, 3) * size for length in (4, 1)]))


def test_the_fast_way_and_its_twin_agree_where_one_slot_takes_all():
    torch.manual_seed(0)
    fast, naive = (MemoryLSTM(3, 4, slots=6, backend=backend) for backend in ("stepped", "naive"))
    fast.load_state_dict(naive.state_dict())
    with torch.no_grad():
        for layer in (fast, naive):
            layer.bank(0, 0).keys.mul_(1e6)
    given = [torch.randn(5, 3)]
    ours, theirs = results(fast, given), results(naive, given)
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-4, atol=1e-6)


def test_attention_is_one_in_all_however_far_apart_the_logits_are():
    keys = torch.tensor([[1e30], [-1e30], [0.0]])
    for query in (1e8, -1e8, 0.0):
        content, weights = attend(torch.tensor([[query]]), Memory(keys, torch.eye(3), None))
        assert weights.sum().item() == pytest.approx(1)
        assert bool(content.isfinite().all())


@pytest.mark.parametrize("reading", ["slots", "fixed-keys", "adapter"])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e15])
def test_a_memory_in_a_transformer_gives_finite_states_and_gradients(reading, size):
    torch.manual_seed(0)
    memory = ResidualMemory(6, key_size=4, best=3, slots=2000, domain="a", reading=reading)
    memory.grow(5, "b", quiet=1e4)
    with torch.no_grad():
        memory.bank.values.normal_()
        memory.bank.keys[:3] = 0.0  # a key without a direction
    states = (torch.randn(2, 3, 6) * size).requires_grad_()
    out = memory(states)
    out.sin().sum().backward()
    parts = {name: p.grad for name, p in memory.named_parameters() if p.grad is not None}
    assert_finite({"out": out, "states": states.grad, **parts})
