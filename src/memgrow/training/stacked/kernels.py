"""The steps of a stack by the GPU's kernels: one launch forward and one backward, each of which takes all steps.

A launch has one or two directions, so that is for a model alone; with several, the loop's products are the faster way.
"""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.nn import MemoryRecurrent
from memgrow.nn.kernels.cuda import cluster
from memgrow.nn.kernels.cuda.choice import exact, plan_for
from memgrow.nn.kernels.cuda.cluster import ClusterKernel
from memgrow.nn.kernels.cuda.cluster_plan import Clusters, Sizes
from memgrow.nn.kernels.cuda.layer import Kernel, Layer, Reading, Trace, steps_of
from memgrow.training.stacked.steps import Inner, StepGradients

CELL, GATES = "lstm", 4


def prepare(column: MemoryRecurrent, rows: int, with_gradient: bool) -> None:
    """Begin to compile the kernels that will take steps of this many `rows`, where any will."""
    weight = next(column.parameters())
    shared = _shared(column.num_directions, rows, column.hidden_size, column.slots, weight.dtype, weight.device)
    if shared is not None:
        cluster.prepare(shared, with_gradient, weight.device)


def _shared(
    directions: int, rows: int, hidden: int, slots: int, dtype: torch.dtype, device: torch.device
) -> Clusters | None:
    """How the kernels share out such steps; None if they cannot take them."""
    if device.type != "cuda" or directions > 2 or exact(dtype) or torch.cuda.get_device_capability(device) < (9, 0):
        return None
    return plan_for(Sizes(CELL, directions, rows, hidden, slots), device)


def kernel_for(layer: Layer) -> Kernel:
    """The kernels for a layer that `KernelSteps.suits`."""
    shared = plan_for(Sizes(CELL, layer.directions, layer.batch, layer.hidden, layer.slots), layer.device)
    assert shared is not None
    return ClusterKernel(layer, shared)


@functools.cache  # for good: steps that were recorded read it from where it was
def _even(rows: int, steps: int, device: torch.device) -> Tensor:
    return steps_of((rows,) * steps, device)


class KernelSteps:
    """All steps by one launch forward and one backward (see `Steps`)."""

    @staticmethod
    def suits(x: Tensor, inner: Inner) -> bool:
        """Whether the kernels can take these steps."""
        slots = 0 if inner.keys is None else inner.keys.shape[1]
        return _shared(x.shape[2], x.shape[1], x.shape[3] // GATES, slots, x.dtype, x.device) is not None

    def forward(self, x: Tensor, inner: Inner, wanted: bool) -> Tensor:
        steps, rows, directions, width = x.shape
        hidden = width // GATES
        nothing = [x.new_zeros(rows, hidden) for _ in range(directions)]
        keys: list[Tensor | None] = [None] * directions if inner.keys is None else list(inner.keys.contiguous())
        hh: list[Tensor | None] = list(inner.hh.contiguous())
        even, forwards = (rows,) * steps, (False,) * directions
        layer = Layer(CELL, even, forwards, x.device, nothing, nothing, hh, keys, _even(rows, steps, x.device))
        self.kernel = kernel = kernel_for(layer)
        bias = None
        if inner.bias is not None:
            bias = F.pad(inner.bias, (0, kernel.slots - layer.slots)).contiguous()
        kernel.pack(Reading(None if inner.through is None else _by_units(inner.through, kernel.hidden)), wanted)
        self.trace = Trace.of(layer, kernel.hidden, kernel.slots)
        result = kernel.forward(_by_units(x, kernel.hidden).view(steps * rows, -1), bias, self.trace)
        self.shape, self.nothing, self.slots = (steps, rows, directions), nothing, layer.slots
        return result.output.view(*self.shape, hidden)

    def backward(self, d_output: Tensor, inner: Inner) -> StepGradients:
        steps, rows, directions = self.shape
        hidden = d_output.shape[-1]
        attention = self.trace.attention[..., : self.slots]
        mean_key = d_output.new_empty(directions, steps * rows, hidden)
        if inner.keys is not None:
            torch.bmm(attention.transpose(0, 1), inner.keys, out=mean_key)
        result = self.kernel.backward(
            self.trace, mean_key, d_output.reshape(steps * rows, -1).contiguous(), self.nothing, list(self.nothing)
        )
        d_gates = _by_gates(result.d_gates, hidden).view(*self.shape, -1)
        if inner.keys is None:
            return StepGradients(d_gates, None, None)
        return StepGradients(
            d_gates, result.d_logits[..., : self.slots].view(*self.shape, -1), attention.view(*self.shape, -1)
        )


def _by_units(gates: Tensor, hidden: int) -> Tensor:
    """From torch's order (..., 4H), gate by gate, to the kernels' (..., 4 * hidden), unit by unit, padded."""
    separate = gates.view(*gates.shape[:-1], GATES, -1).transpose(-1, -2)  # (..., H, 4)
    return F.pad(separate, (0, 0, 0, hidden - separate.shape[-2])).flatten(-2)


def _by_gates(units: Tensor, hidden: int) -> Tensor:
    """The opposite of `_by_units`."""
    return units.view(*units.shape[:-1], -1, GATES)[..., :hidden, :].transpose(-1, -2).flatten(-2)
