"""What stands around the GPU kernels of a stack of one, with a kernel on the CPU in their place."""

import pytest
import torch

from memgrow.data import Domain, synthetic_stream
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.nn import MemoryLSTM
from memgrow.nn.kernels.cuda.layer import BackwardResult, ForwardResult, Layer, Trace
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked import data as stack_data
from memgrow.training.stacked import kernels, together
from memgrow.training.stacked.steps import Inner, LoopedSteps

STEPS, ROWS, HIDDEN = 7, 5, 6


class Reference:
    """The equations, in the order and with the padding of the kernels: units with four columns each, some too many."""

    def __init__(self, layer: Layer) -> None:
        self.layer, self.hidden, self.slots = layer, layer.hidden + 3, layer.slots + 2 if layer.slots else 0

    def pack(self, reading, with_gradient):
        self.gate_values = reading.gate_values

    def forward(self, x, bias, trace: Trace) -> ForwardResult:
        self.x = x.detach().requires_grad_()
        self.extra = torch.zeros(len(x), self.layer.directions, self.layer.slots, requires_grad=True)
        output, attention = self._steps(self.x, bias)
        self.output = output
        trace.attention.zero_()
        trace.attention[..., : self.layer.slots] = attention.detach()
        return ForwardResult(output.detach(), [], [])

    def _steps(self, x, bias):
        layer = self.layer
        x = x.view(STEPS, ROWS, layer.directions, self.hidden, 4)[..., : layer.hidden, :]
        extra = self.extra.view(STEPS, ROWS, layer.directions, -1)
        outputs, attentions = [], []
        for d in range(layer.directions):
            h, c, own, kept = layer.h0[d], layer.c0[d], [], []
            weight = layer.hh[d].view(4, layer.hidden, layer.hidden)
            for t in range(STEPS):
                gates = x[t, :, d] + torch.einsum("rk,guk->rug", h, weight)
                if layer.slots:
                    logits = h @ layer.keys[d].t() + extra[t, :, d]
                    a = torch.softmax(logits if bias is None else logits + bias[d, : layer.slots], dim=-1)
                    values = self.gate_values[d].view(layer.slots, self.hidden, 4)[:, : layer.hidden]
                    gates = gates + torch.einsum("rn,nug->rug", a, values)
                    kept.append(a)
                i, f, g, o = gates.unbind(-1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                own.append(h)
            outputs.append(torch.stack(own))
            attentions.append(torch.stack(kept) if kept else x.new_zeros(STEPS, ROWS, 0))
        total = STEPS * ROWS
        return torch.stack(outputs, 2).view(total, -1), torch.stack(attentions, 2).view(total, layer.directions, -1)

    def backward(self, trace, mean_key, d_output, d_hn, d_cn) -> BackwardResult:
        d_gates, d_logits = torch.autograd.grad(self.output, (self.x, self.extra), d_output, allow_unused=True)
        total, d = len(self.x), self.layer.directions
        if self.layer.slots:
            expected = torch.einsum(
                "tdn,dnh->dth", trace.attention[..., : self.layer.slots], torch.stack(self.layer.keys)
            )
            torch.testing.assert_close(mean_key, expected)
            d_logits = torch.nn.functional.pad(d_logits, (0, self.slots - self.layer.slots))
        return BackwardResult(d_gates.view(total, d, -1), d_logits, [], [])


@pytest.mark.parametrize("slots", [0, 4])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("quiet", [False, True])
def test_a_steps_and_the_loop_give_the_same(slots, directions, quiet, monkeypatch):
    monkeypatch.setattr(kernels.cuda, "cluster_kernel", Reference)
    torch.manual_seed(0)
    inner = Inner(
        torch.randn(directions, 4 * HIDDEN, HIDDEN),
        torch.randn(directions, slots, HIDDEN) if slots else None,
        torch.randn(directions, slots, 4 * HIDDEN) if slots else None,
        torch.randn(directions, slots) if slots and quiet else None,
    )
    x, d_output = torch.randn(STEPS, ROWS, directions, 4 * HIDDEN), torch.randn(STEPS, ROWS, directions, HIDDEN)
    loop, kernel = LoopedSteps(), kernels.KernelSteps()
    torch.testing.assert_close(kernel.forward(x, inner, True), loop.forward(x, inner, True))
    with torch.enable_grad():
        kernel.forward(x, inner, True)
        there = kernel.backward(d_output, inner)
    for ours, theirs in zip(there, loop.backward(d_output, inner), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_on_a_cpu_nothing_stepss():
    x = torch.zeros(STEPS, ROWS, 2, 4 * HIDDEN)
    assert not kernels.KernelSteps.suits(x, Inner(torch.zeros(2, 4 * HIDDEN, HIDDEN), None, None, None))


def test_kernels_are_prepared_for_the_rows_of_all_batches(monkeypatch):
    """Those that training takes and those of validation, with gradients where there are any, of each column."""
    prepared, taken = set(), set()
    monkeypatch.setattr(together, "prepare", lambda column, rows, with_gradient: prepared.add((rows, with_gradient)))
    monkeypatch.setattr(stack_data, "LARGE", 8)
    forward = LoopedSteps.forward

    def watched(self, x, inner, wanted):
        taken.add((x.shape[1], wanted))
        return forward(self, x, inner, wanted)

    monkeypatch.setattr(LoopedSteps, "forward", watched)
    domain = synthetic_stream(seed=0)[0]
    domain = Domain(domain.name, domain.train[:41], domain.validation[:21], ())
    learner = Learner.create(
        "F+M+V",
        model=ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7),
        training=TrainingSettings(epochs=1, batch=16),
    )
    learner.adapt(domain, loop="stacked")
    assert taken == {(32, True), (18, True), (14, False)}, "41 are 16, 16 and 9 pairs; 21 are three times 7"
    assert taken <= prepared


def test_nothing_is_prepared_on_a_cpu(monkeypatch):
    monkeypatch.setattr(kernels.cuda.nvrtc, "prepare", lambda *_: pytest.fail("there is no GPU"))
    kernels.prepare(MemoryLSTM(3, 4, slots=5), 64, with_gradient=True)
