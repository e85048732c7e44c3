"""A compiled layer gives what it gives eagerly: outputs, last states and the gradients of all that went in."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from memgrow.nn import MemoryGRU, MemoryLSTM, MemoryRNN, ResidualMemory
from memgrow.nn.kernels import parallel_directions, stepped

pytestmark = pytest.mark.slow  # compiling takes seconds
KINDS = {"lstm": MemoryLSTM, "gru": MemoryGRU, "rnn": MemoryRNN}
LENGTHS = torch.tensor([3, 1, 2])


class Model(nn.Module):
    """A layer between plain operations, which take part in the graphs before and after it."""

    def __init__(self, layer, packed):
        super().__init__()
        self.layer, self.packed = layer, packed

    def forward(self, x, hx):
        x = x.sin()
        if self.packed:
            x = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        output, last = self.layer(x, hx)
        output = output.data if self.packed else output
        return output.cos(), last if isinstance(last, tuple) else (last,)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def make(kind, backend, both, layers):
    torch.manual_seed(0)
    layer = KINDS[kind](3, 4, slots=5, slot_size=2, num_layers=layers, bidirectional=both, backend=backend)
    layer.grow(slots=2, initial_logit_bias=-1.5)
    return layer.double()


def results(model, run):
    """Outputs and gradients of a first and a second batch, which goes through what was compiled for the first."""
    layer, found = model.layer, []
    shape = (layer.num_layers * layer.num_directions, 3, 4)
    for seed in (1, 2):
        draw = torch.Generator().manual_seed(seed)
        x = torch.randn(3, 3, 3, generator=draw, dtype=torch.double).requires_grad_()
        hx = [torch.randn(shape, generator=draw, dtype=torch.double).requires_grad_() for _ in range(2)]
        model.zero_grad()
        output, last = run(x, tuple(hx) if layer.cell == "lstm" else hx[0])
        (output.square().sum() + sum(state.sin().sum() for state in last)).backward()
        first = hx if layer.cell == "lstm" else hx[:1]
        found += [output, *last, x.grad, *(h.grad for h in first), *(p.grad for p in model.parameters())]
    return found


def check(kind, backend, both=True, layers=1, packed=False, compiler="aot_eager"):
    model = Model(make(kind, backend, both, layers), packed)
    expected = results(model, model)
    for ours, theirs in zip(results(model, torch.compile(model, backend=compiler)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


# Each cell with one direction and with two of two layers, and each of these padded and packed; half of them here.
@pytest.mark.parametrize(
    ("kind", "both", "layers", "packed"),
    [
        ("lstm", True, 2, True),
        ("gru", False, 1, False),
        pytest.param("lstm", False, 1, False, marks=pytest.mark.extras),
        pytest.param("gru", True, 2, True, marks=pytest.mark.extras),
    ],
)
def test_a_layer_with_a_fast_backend_gives_compiled_what_it_gives_eagerly(kind, both, layers, packed):
    check(kind, "auto", both, layers, packed)


@pytest.mark.parametrize(
    ("kind", "packed"), [("lstm", True), pytest.param("gru", False, marks=pytest.mark.extras), ("rnn", False)]
)
def test_the_naive_loop_gives_compiled_what_it_gives_eagerly(kind, packed):
    check(kind, "naive", both=packed, packed=packed)


def test_directions_at_the_same_time_are_right_when_compiled(monkeypatch):
    monkeypatch.setattr(parallel_directions, "WORTHWHILE", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    check("gru", "auto")


@pytest.mark.parametrize(
    ("kind", "backend"),
    [
        ("lstm", "auto"),
        pytest.param("gru", "stepped", marks=pytest.mark.extras),
        pytest.param("rnn", "auto", marks=pytest.mark.extras),
    ],
)
def test_on_a_cpu_a_single_graph_holds_a_layer_both_ways(kind, backend):
    model = Model(make(kind, backend, True, 1), packed=False)
    expected = results(model, model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for ours, theirs in zip(results(model, compiled), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.extras
def test_a_single_graph_holds_a_memory_of_a_transformer():
    layer = ResidualMemory(6, key_size=4, best=2, slots=5).double()
    nn.init.normal_(layer.bank.values)
    x = torch.randn(2, 3, 6, dtype=torch.double)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x))


def test_an_exported_layer_holds_plain_operations():
    layer = make("gru", "auto", True, 1)
    x = torch.randn(4, 3, 3, dtype=torch.double)
    torch.testing.assert_close(torch.export.export(layer, (x,)).module()(x)[0], layer(x)[0])


@pytest.mark.parametrize("backend", ["auto", "stepped"])
def test_a_compiled_layer_still_takes_its_fast_backend(backend, monkeypatch):
    """As one operator that is not looked into: what is traced would be slow, or wrong."""
    traced, forward_pass = [], stepped.forward_pass

    def recorded(*given):
        traced.append(torch.compiler.is_dynamo_compiling())
        return forward_pass(*given)

    monkeypatch.setattr(stepped, "forward_pass", recorded)
    torch._dynamo.reset()
    layer = MemoryLSTM(5, 7, slots=3, backend=backend)
    torch.compile(layer, backend="eager")(torch.randn(4, 3, 5))
    assert traced == [False]
