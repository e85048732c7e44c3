"""Every backend of the recurrence gives what the plain loop gives: outputs, last states and all gradients."""

import subprocess
import sys

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from memgrow.errors import SettingsError
from memgrow.nn import MemoryGRU, MemoryLSTM, MemoryRNN
from tests.support.layers import LENGTHS, SIZES, distance, results, twins


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_the_stepped_way_equals_the_plain_loop(kind, sizes, lengths):
    fast, plain = twins(kind, sizes, "stepped", biased=True, num_layers=2, bidirectional=True)
    sequences = [torch.randn(length, sizes[0]) for length in lengths]
    ours, theirs = results(fast, sequences), results(plain, [s.double() for s in sequences])
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        # With a single slot attention is constant: what flows back into its key is rounding on both sides.
        if value.norm() > 1e-8:
            assert distance(ours[name], value) < 1e-5, name


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("bias", [True, False])
def test_the_stepped_way_takes_initial_states_and_gives_gradients_to_them(kind, bias):
    fast, plain = twins(kind, (4, 6, 5, 3), "stepped", biased=False, bias=bias, bidirectional=True)
    x = torch.randn(5, 3, 4)
    found = []
    for layer, dtype in ((fast, torch.float32), (plain, torch.double)):
        torch.manual_seed(1)
        first = [torch.randn(2, 3, 6).to(dtype).requires_grad_() for _ in range(2 if kind is MemoryLSTM else 1)]
        out, _ = layer(x.to(dtype), tuple(first) if len(first) > 1 else first[0])
        out.sin().sum().backward()
        found.append([out, *(state.grad for state in first)])
    for ours, theirs in zip(*found, strict=True):
        assert distance(ours, theirs) < 1e-5


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
def test_fresh_memory_is_never_read_before_it_is_written(kind):
    fast, plain = twins(kind, (5, 7, 11, 3), "stepped", biased=True, bidirectional=True)
    sequences = [torch.randn(length, 5) for length in LENGTHS["ragged"]]
    torch.use_deterministic_algorithms(True)  # torch then fills all fresh memory with NaN
    try:
        assert torch.empty(3).isnan().all()
        ours = results(fast, sequences)
    finally:
        torch.use_deterministic_algorithms(False)
    theirs = results(plain, [s.double() for s in sequences])
    for name, value in theirs.items():
        assert distance(ours[name], value) < 1e-5, name


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
def test_the_stepped_way_repeats_to_the_bit_with_and_without_gradients(kind):
    layer, _ = twins(kind, (5, 7, 11, 3), "stepped", biased=False, bidirectional=True)
    batch = pack_sequence([torch.randn(n, 5) for n in LENGTHS["ragged"]], enforce_sorted=False)
    first = layer(batch)[0].data
    with torch.no_grad():
        assert torch.equal(layer(batch)[0].data, first)
    assert torch.equal(layer(batch)[0].data, first)


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("dtype", "scale"), [(torch.bfloat16, 1.0), (torch.float32, 1e-4)], ids=["bfloat16", "small"])
def test_the_stepped_way_is_as_precise_as_the_plain_loop(kind, dtype, scale):
    """Near zero, tanh has the relative precision of its argument."""
    torch.manual_seed(0)
    exact = kind(16, 16, slots=8, bias=False, backend="naive").double()
    x = scale * torch.randn(9, 4, 16, dtype=torch.double)
    with torch.no_grad():
        for parameter in exact.parameters():
            parameter.mul_(0.1)
    expected, _ = exact(x)
    errors = {}
    for backend in ("stepped", "naive"):
        layer = kind(16, 16, slots=8, bias=False, backend=backend).to(dtype)
        layer.load_state_dict(exact.state_dict())
        errors[backend] = distance(layer(x.to(dtype))[0], expected)
    assert errors["stepped"] < 2 * errors["naive"]


def test_weights_that_do_not_train_get_no_gradient():
    layer = MemoryLSTM(3, 4, slots=5)
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_("banks" in name)
    layer(torch.randn(4, 2, 3))[0].sum().backward()
    assert layer.weight_ih_l0.grad is None
    assert layer.banks[0].keys.grad.abs().sum() > 0


def test_the_way_is_chosen_by_cell_and_device_and_can_be_asked_for():
    x = torch.randn(4, 2, 3)
    assert MemoryLSTM(3, 4, slots=2).backend_for(x)[0] == "stepped"
    assert MemoryGRU(3, 4, slots=2).backend_for(x)[0] == "stepped"
    assert MemoryRNN(3, 4, slots=2).backend_for(x)[0] == "naive"
    assert MemoryRNN(3, 4).backend_for(x)[0] == "torch"
    assert MemoryLSTM(3, 4).backend_for(x)[0] == "stepped"
    with torch.no_grad():
        assert MemoryLSTM(3, 4).backend_for(x)[0] == "torch"
    assert MemoryLSTM(3, 4, slots=2, backend="naive").backend_for(x) == ("naive", "asked for")


@pytest.mark.parametrize("backend", ["naive", "auto"])
@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU, MemoryRNN], ids=lambda kind: kind.__name__)
def test_autocast_works_and_stays_near_full_precision(kind, backend):
    torch.manual_seed(0)
    layer = kind(6, 5, slots=4, bidirectional=True, backend=backend)
    x = torch.randn(7, 3, 6)
    expected, _ = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = layer(x.bfloat16())
        output.float().sum().backward()
    assert distance(output, expected) < 2e-2
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.numel())


def test_a_backend_that_cannot_run_a_layer_says_so():
    x = torch.randn(4, 2, 3)
    with pytest.raises(SettingsError, match="not rnn_tanh"):
        MemoryRNN(3, 4, backend="stepped")(x)
    with pytest.raises(SettingsError, match="not on a GPU"):
        MemoryLSTM(3, 4, backend="cuda")(x)


@pytest.mark.parametrize("size", [1e3, 1e18])  # of a key's entries: the exponential of 89 is infinite already
@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU, MemoryRNN], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("backend", ["auto", "naive"])
def test_a_bank_with_huge_keys_gives_finite_states_and_gradients(kind, backend, size):
    torch.manual_seed(0)
    layer = kind(3, 4, slots=5, bidirectional=True, backend=backend)
    layer.grow(slots=2, initial_logit_bias=-1e4)
    with torch.no_grad():
        for bank in layer.banks:
            bank.keys.mul_(size)
    for lengths in ([1], [6, 1, 3]):
        found = results(layer, [torch.randn(length, 3) for length in lengths])
        assert all(tensor.isfinite().all() for tensor in found.values())


def test_the_gpu_code_is_not_imported_on_a_cpu():
    script = (
        "import sys, torch, memgrow.nn as nn; nn.MemoryLSTM(3, 4, slots=2)(torch.randn(4, 2, 3))[0].sum().backward()"
    )
    check = "; sys.exit(any('kernels.cuda' in name for name in sys.modules))"
    subprocess.run([sys.executable, "-c", script + check], check=True)
