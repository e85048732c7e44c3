"""What torch can do with a layer beside calling it: each backend is right, or refuses with a sentence."""

import copy

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.utils.checkpoint import checkpoint

from memgrow.errors import SettingsError
from memgrow.nn import MemoryGRU, MemoryLSTM
from memgrow.nn.kernels import parallel_directions

KINDS = {"lstm": MemoryLSTM, "gru": MemoryGRU}
FAST = ("stepped", "both directions at once")


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=FAST)
def fast(request, kind, monkeypatch):
    if request.param != "stepped":
        monkeypatch.setattr(parallel_directions, "WORTHWHILE", 0)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    return make(kind, "stepped")


@pytest.fixture
def x():
    return torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.double).requires_grad_()


def make(kind, backend):
    torch.manual_seed(0)
    return kind(5, 7, slots=4, slot_size=3, bidirectional=True, backend=backend).double()


def naive(layer):
    return make(type(layer), "naive")


def gradients(layer, x, output):
    output.sin().sum().backward()
    found = [x.grad.clone(), *(p.grad.clone() for p in layer.parameters() if p.numel())]
    x.grad = None
    layer.zero_grad()
    return found


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def summed(layer, x):
    return lambda parameters: functional_call(layer, parameters, (x,))[0].sin().sum()


TRANSFORMS = {
    "torch.func.grad": lambda layer, x: list(grad(summed(layer, x))(dict(layer.named_parameters())).values()),
    "vmap over inputs": lambda layer, x: [vmap(lambda one: layer(one)[0])(torch.stack([x, 2 * x]))],
    "vmap over weights": lambda layer, x: [
        vmap(lambda p: functional_call(layer, p, (x,))[0])(
            {name: torch.stack([p, 2 * p]) for name, p in layer.named_parameters()}
        )
    ],
    "jvp": lambda layer, x: [jvp(lambda one: layer(one)[0], (x,), (torch.ones_like(x),))[1]],
    "jacrev": lambda layer, x: [jacrev(lambda one: layer(one)[0].sum(0))(x)],
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_under_torch_func_auto_takes_the_naive_loop_and_others_refuse(transform, kind, x):
    assert_same(transform(make(kind, "auto"), x), transform(make(kind, "naive"), x))
    with pytest.raises(SettingsError, match=r"stepped cannot run this layer: torch\.func.*naive"):
        transform(make(kind, "stepped"), x)


def test_forward_mode_gradients_take_the_naive_loop_or_are_refused(kind, x):
    def tangent(layer):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(layer(forward_ad.make_dual(x, torch.ones_like(x)))[0]).tangent

    torch.testing.assert_close(tangent(make(kind, "auto")), tangent(make(kind, "naive")))
    with pytest.raises(SettingsError, match=r"forward-mode gradients.*naive"):
        tangent(make(kind, "stepped"))


def test_a_functional_call_is_as_any_other(fast, x):
    twice = {name: 2 * p for name, p in fast.named_parameters()}
    expected = functional_call(naive(fast), twice, (x,))[0]
    torch.testing.assert_close(functional_call(fast, twice, (x,))[0], expected)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_changes_no_gradient(fast, x, reentrant):
    expected = gradients(plain := naive(fast), x, plain(x)[0])
    assert_same(gradients(fast, x, checkpoint(lambda one: fast(one)[0], x, use_reentrant=reentrant)), expected)


def test_hooks_see_and_change_what_passes(fast, x):
    def with_hooks(layer):
        seen = []
        layer.register_full_backward_hook(lambda module, d_input, d_output: seen.append(d_input[0]))
        layer.register_forward_hook(lambda module, inputs, output: (2 * output[0], output[1]))
        return [*gradients(layer, x, layer(x)[0]), *seen]

    assert_same(with_hooks(fast), with_hooks(naive(fast)))


def test_saved_tensors_may_be_kept_elsewhere(fast, x):
    expected = gradients(plain := naive(fast), x, plain(x)[0])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy):
        output = fast(x)[0]
    assert_same(gradients(fast, x, output), expected)


def test_a_graph_may_be_used_twice(fast, x):
    output = fast(x)[0].sin().sum()
    output.backward(retain_graph=True)
    once = x.grad.clone()
    output.backward()
    torch.testing.assert_close(x.grad, 2 * once)


def test_a_weight_that_is_changed_before_the_backward_pass_is_noticed(fast, x):
    output = fast(x)[0]
    with torch.no_grad():
        fast.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_gradients_of_gradients_are_refused_and_never_left_out(fast, x):
    (slope,) = torch.autograd.grad(fast(x)[0].sum(), x, create_graph=True)
    expected = torch.autograd.grad(naive(fast)(x)[0].sum(), x)
    torch.testing.assert_close(slope, *expected)  # what it is may be looked at
    with pytest.raises(SettingsError, match=r'no gradients of gradients.*backend="naive"'):
        (fast(x)[0].sum() + slope.square().sum()).backward()
    with pytest.raises(SettingsError, match="no gradients of gradients"):
        torch.autograd.functional.hessian(lambda one: fast(one)[0].sum(), x.detach())


def test_a_batch_of_gradients_is_refused(fast, x):
    output = fast(x)[0]
    with pytest.raises(SettingsError, match=r'not a batch of them.*backend="naive"'):
        torch.autograd.grad(output, x, torch.ones(2, *output.shape, dtype=torch.double), is_grads_batched=True)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_without_gradients_outputs_are_the_same(fast, x, mode):
    expected = naive(fast)(x)[0].detach()
    with mode():
        torch.testing.assert_close(fast(x)[0], expected)


def test_a_copy_is_a_layer_of_its_own(fast, x):
    fast(x)[0].sum().backward()
    other = copy.deepcopy(fast)
    with torch.no_grad():
        fast.weight_hh_l0.zero_()
    x.grad = None
    other.zero_grad()
    assert_same(gradients(other, x, other(x)[0]), gradients(plain := naive(other), x, plain(x)[0]))


def test_autocast_changes_neither_pass(fast, x):
    single, plain = fast.float(), naive(fast).float()
    x = x.detach().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        output = single(x)[0]
        assert output.dtype == torch.float32
        ours = gradients(single, x, output)
    assert_same(ours, gradients(plain, x, plain(x)[0]))
