"""On a GPU: compiled, checkpointed and functional layers are right, and what the kernels cannot do is refused."""

import pytest
import torch
from torch.func import functional_call, grad
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

from memgrow.errors import SettingsError
from memgrow.nn import MemoryGRU, MemoryLSTM

LENGTHS = torch.tensor([4, 1, 3])
KINDS = pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
PRECISIONS = pytest.mark.parametrize("tf32", [False, True], ids=["float32", "tf32"])


def make(kind, layers=1, both=True):
    torch.manual_seed(0)
    return kind(5, 7, slots=6, slot_size=3, num_layers=layers, bidirectional=both, backend="cuda", device="cuda")


def results(layer, run, packed=False):
    x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1)).cuda().requires_grad_()
    layer.zero_grad()
    output, last = run(pack_padded_sequence(x, LENGTHS, enforce_sorted=False) if packed else x)
    last = last if isinstance(last, tuple) else (last,)
    output = output.data if packed else output
    (output.sin().sum() + sum(state.square().sum() for state in last)).backward()
    return [output, *last, x.grad, *(p.grad.clone() for p in layer.parameters() if p.numel())]


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@KINDS
@PRECISIONS
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_a_compiled_layer_gives_what_it_gives_eagerly(kind, tf32, layers, both, packed):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch._dynamo.reset()
    layer = make(kind, layers, both)
    expected = results(layer, layer, packed)
    assert_same(results(layer, torch.compile(layer, backend="aot_eager"), packed), expected)


@KINDS
def test_a_single_graph_is_refused_and_the_naive_backend_that_the_error_names_has_it(kind):
    torch._dynamo.reset()
    layer, x = make(kind), torch.randn(4, 3, 5, device="cuda")
    with pytest.raises(torch._dynamo.exc.Unsupported, match='backend="naive"'):
        torch.compile(layer, backend="eager", fullgraph=True)(x)
    layer.backend = "naive"
    torch.testing.assert_close(torch.compile(layer, backend="eager", fullgraph=True)(x)[0], layer(x)[0])


@KINDS
@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_changes_no_gradient(kind, reentrant):
    layer = make(kind)
    expected = results(layer, layer)

    def flat(x):  # a reentrant checkpoint overlooks tensors in tuples within its output
        output, last = layer(x)
        return (output, *last) if isinstance(last, tuple) else (output, last)

    def checkpointed(x):
        output, *last = checkpoint(flat, x, use_reentrant=reentrant)
        return output, tuple(last)

    assert_same(results(layer, checkpointed), expected)


@KINDS
def test_gradients_of_gradients_are_refused(kind):
    layer, x = make(kind), torch.randn(4, 3, 5, device="cuda", requires_grad=True)
    (slope,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    with pytest.raises(SettingsError, match="no gradients of gradients"):
        (layer(x)[0].sum() + slope.square().sum()).backward()


@KINDS
def test_a_weight_that_is_changed_before_the_backward_pass_is_noticed(kind):
    layer = make(kind)
    output = layer(torch.randn(4, 3, 5, device="cuda"))[0]
    with torch.no_grad():
        layer.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@KINDS
def test_torch_func_is_refused_or_takes_the_naive_loop(kind):
    layer, x = make(kind), torch.randn(4, 3, 5, device="cuda")
    parameters = dict(layer.named_parameters())

    def loss(values):
        return functional_call(layer, values, (x,))[0].sin().sum()

    with pytest.raises(SettingsError, match="naive"):
        grad(loss)(parameters)
    layer.backend = "auto"
    found = grad(loss)(parameters)
    loss(parameters).backward()
    for name, parameter in parameters.items():
        if parameter.numel():
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-3, atol=1e-4)
