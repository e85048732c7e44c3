"""The steps of a stack as a loop: each is a few batched products, however many models there are.

With P = V W', the values as the gates see them, a step is

    forward    a = softmax(h K' + b)       gates = x[t] + h U' + a P
    backward   d_logits = softmax'(d_gates P')       d_h = d_gates U + d_logits K
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Inner(NamedTuple):
    """The weights with which each of D directions reads its own state; without slots, the rest is None."""

    hh: Tensor  # (D, 4H, H)
    keys: Tensor | None  # (D, N, H)
    through: Tensor | None  # (D, N, 4H): the values times the weights that read them
    bias: Tensor | None  # (D, N)


class StepGradients(NamedTuple):
    """The gradients that a backward pass over all steps finds."""

    d_gates: Tensor  # (T, R, D, 4H)
    d_logits: Tensor | None  # (T, R, D, N)
    attention: Tensor | None  # (T, R, D, N), as it was in the forward pass


class Steps(Protocol):
    """Takes all steps from inputs to the gates, and keeps what the backward pass needs."""

    def forward(self, x: Tensor, inner: Inner, wanted: bool) -> Tensor:
        """States (T, R, D, H) from x (T, R, D, 4H); `wanted` says whether there will be a backward pass."""

    def backward(self, d_output: Tensor, inner: Inner) -> StepGradients: ...


class LoopedSteps:
    """A loop over the steps in Python (see `Steps`)."""

    def forward(self, x: Tensor, inner: Inner, wanted: bool) -> Tensor:
        steps, rows, stacked, width = x.shape
        hidden = width // 4
        h, c = x.new_zeros(2, rows, stacked, hidden)
        output, own = x.new_empty(steps, rows, stacked, hidden), x.new_empty(rows, stacked, width)
        self.attention = logits = None
        if inner.keys is not None:
            self.attention = x.new_empty(steps, rows, stacked, inner.keys.shape[1])
            logits = torch.empty_like(self.attention[0])
        self.cells, self.gates = [c], []
        for t in range(steps):
            torch.bmm(_each(h), inner.hh.transpose(1, 2), out=_each(own))
            if inner.keys is not None and inner.through is not None and self.attention is not None:
                assert logits is not None
                torch.bmm(_each(h), inner.keys.transpose(1, 2), out=_each(logits))
                if inner.bias is not None:
                    logits += inner.bias
                torch.softmax(logits, -1, out=self.attention[t])
                _each(own).baddbmm_(_each(self.attention[t]), inner.through)
            h, c, gate = _step(x[t], own, c)
            output[t] = h
            if wanted:
                self.cells.append(c)
                self.gates.append(gate)
        return output

    def backward(self, d_output: Tensor, inner: Inner) -> StepGradients:
        attention = self.attention
        d_gates = d_output.new_empty(*d_output.shape[:3], inner.hh.shape[1])
        d_logits = None if attention is None else torch.empty_like(attention)
        d_attention = None if attention is None else torch.empty_like(attention[0])
        dh, dc = d_output[-1].contiguous(), torch.zeros_like(self.cells[0])
        for t in reversed(range(len(d_output))):
            d, dc = _step_back(dh, dc, self.cells[t], self.cells[t + 1], self.gates[t])
            d_gates[t] = d
            dh = d_output[t - 1].contiguous().clone() if t else torch.zeros_like(dh)
            _each(dh).baddbmm_(_each(d), inner.hh)
            if attention is not None and d_logits is not None and d_attention is not None:
                assert inner.keys is not None
                assert inner.through is not None
                torch.bmm(_each(d), inner.through.transpose(1, 2), out=_each(d_attention))
                d_logits[t] = torch._softmax_backward_data(d_attention, attention[t], -1, attention.dtype)
                _each(dh).baddbmm_(_each(d_logits[t]), inner.keys)
        return StepGradients(d_gates, d_logits, attention)


def _each(rows: Tensor) -> Tensor:
    """(R, D, F) as a matrix (R, F) for each of D."""
    return rows.transpose(0, 1)


def _step(x: Tensor, inner: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The new state, the new cell, and the gates after their nonlinearities."""
    if x.is_cuda:  # one kernel for what follows below
        flat = (tensor.flatten(0, 1) for tensor in (x, inner, c))
        h, new, gates = torch.ops.aten._thnn_fused_lstm_cell(*flat)
        return h.view_as(c), new.view_as(c), gates
    i, f, g, o = (x + inner).chunk(4, dim=-1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * c + i * g
    return o * new.tanh(), new, torch.cat((i, f, g, o), dim=-1)


def _step_back(dh: Tensor, dc: Tensor, c: Tensor, new: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the gates before their nonlinearities, and of the cell before the step."""
    if dh.is_cuda:
        flat = (tensor.flatten(0, 1) for tensor in (dh, dc, c, new))
        d, before, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(*flat, gates, False)
        return d.view(*dh.shape[:2], -1), before.view_as(c)
    i, f, g, o = gates.chunk(4, dim=-1)
    tanh = new.tanh()
    dc = dc + dh * o * (1 - tanh * tanh)
    d = (dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), dh * tanh * o * (1 - o))
    return torch.cat(d, dim=-1), dc * f
