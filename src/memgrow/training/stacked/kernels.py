"""The steps of a stack by the GPU's kernels: one launch forward and one backward, each of which takes all steps.

A launch has one or two directions, so that is for a model alone; with several models, the loop's products are faster.
"""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.nn import MemoryRecurrent
from memgrow.nn.kernels import cuda
from memgrow.nn.kernels.cuda import Layer, Reading, Sizes, Trace
from memgrow.training.stacked.steps import Inner, StepGradients

CELL, GATES = "lstm", 4


def prepare(column: MemoryRecurrent, rows: int, with_gradient: bool) -> None:
    """Begin to compile the kernels that will take steps of this many `rows`, where any will."""
    weight = next(column.parameters())
    sizes = Sizes(CELL, column.num_directions, rows, column.hidden_size, column.slots)
    cuda.prepare(sizes, weight.dtype, weight.device, with_gradient)


@functools.cache  # for good: steps that were recorded read it from where it was
def _even(rows: int, steps: int, device: torch.device) -> Tensor:
    return cuda.steps_of((rows,) * steps, device)


class KernelSteps:
    """All steps by one launch forward and one backward (see `Steps`)."""

    @staticmethod
    def suits(x: Tensor, inner: Inner) -> bool:
        """Whether the kernels can take these steps."""
        slots = 0 if inner.keys is None else inner.keys.shape[1]
        sizes = Sizes(CELL, x.shape[2], x.shape[1], x.shape[3] // GATES, slots)
        return cuda.runs_in_clusters(sizes, x.dtype, x.device)

    def forward(self, x: Tensor, inner: Inner, wanted: bool) -> Tensor:
        steps, rows, directions, width = x.shape
        hidden = width // GATES
        nothing = [x.new_zeros(rows, hidden) for _ in range(directions)]
        keys: list[Tensor | None] = [None] * directions if inner.keys is None else list(inner.keys.contiguous())
        hh: list[Tensor | None] = list(inner.hh.contiguous())
        even, forwards = (rows,) * steps, (False,) * directions
        layer = Layer(CELL, even, forwards, x.device, nothing, nothing, hh, keys, _even(rows, steps, x.device))
        self.kernel = kernel = cuda.cluster_kernel(layer)
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
