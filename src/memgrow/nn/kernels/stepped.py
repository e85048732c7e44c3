"""The recurrence with few, large operations: the fast backend on a CPU, and the fallback on other devices.

What the naive loop repeats in every step without need is done once for all steps: the products of the inputs before the
loop, the gradients of all weights after it. A step is three products and a few pointwise operations, all into memory
that was taken beforehand. The backward pass is written by hand; the derivatives of the gates are computed for all
steps at once. With h and the content c side by side as hc = [h ; c], one step of an LSTM is

    forward    a = softmax(h K' + b)    c = a V                        gates = x[t] + hc W'
    backward   d_hc = d_gates W         d_logits = softmax'(d_c V')    d_h = d_hc[:, h] + d_logits K
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from memgrow.nn.kernels.autograd import NAIVE, Gradients, first_order
from memgrow.nn.kernels.naive import NO_MEMORY, Direction, Memory, State, Weights

Tensors = Sequence[Tensor | None]
"""The inputs x and what one direction reads: x, h, c, ih, hh, bias_ih, bias_hh, keys, values, slot bias."""


class Trace(NamedTuple):
    """What the forward pass leaves for the backward pass; T is the number of all rows of all steps."""

    output: Tensor  # (T, H): the state after each step
    hc: Tensor  # (T, H + M): the state before each step, and the content that was read with it
    gates: Tensor  # (T, gates * H), after their nonlinearities
    attention: Tensor  # (T, N)
    before: Tensor  # (T, H): LSTM the cell before each step; GRU what h adds to the candidate
    tanh_cell: Tensor  # (T, H): LSTM tanh of the cell after each step; GRU unused


class StepGradients(NamedTuple):
    """Gradients of what the steps computed, from which those of all weights follow."""

    gates: Tensor  # (T, gates * H), before their nonlinearities
    inner: Tensor  # (T, gates * H): of the part that comes from h (in a GRU, the candidate's is gated)
    hc: Tensor  # (T, H + M)
    logits: Tensor  # (T, N)


def recur(
    cell: str,
    data: Tensor,
    batch_sizes: Sequence[int],
    direction: Direction,
) -> tuple[Tensor, State]:
    """Run one direction as `naive.recur` does, for the cells of `CELLS`. Gradients of gradients are refused."""
    state, weights, memory, reverse = direction
    tensors = (data, *(*state, None)[:2], *weights, *(memory or NO_MEMORY))
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        output, *last = _Recurrence.apply(cell, batch_sizes, reverse, *tensors)  # type: ignore[no-untyped-call]
        return output, tuple(last)
    trace, final = forward_pass(cell, batch_sizes, reverse, tensors)
    return trace.output, final


class _Recurrence(torch.autograd.Function):
    """One layer in one direction: packed outputs, and the last state or states."""

    @staticmethod
    def forward(ctx: Any, cell: str, batch_sizes: Sequence[int], reverse: bool, *tensors: Tensor | None) -> Any:
        trace, last = forward_pass(cell, batch_sizes, reverse, tensors)
        ctx.settings = (cell, batch_sizes, reverse, len(tensors))
        ctx.save_for_backward(*tensors, *trace)
        return (trace.output, *last)

    @staticmethod
    @first_order("this backend", NAIVE)
    def backward(ctx: Any, saved: Sequence[Tensor], d_output: Tensor, *d_last: Tensor) -> Gradients:
        cell, batch_sizes, reverse, count = ctx.settings
        tensors, trace, wants_x = saved[:count], Trace(*saved[count:]), ctx.needs_input_grad[3]
        gradients = backward_pass(
            cell, batch_sizes, reverse, tensors, trace=trace, d_output=d_output, d_last=d_last, wants_x=wants_x
        )
        return (None, None, None, *gradients)


def forward_pass(cell: str, batch_sizes: Sequence[int], reverse: bool, tensors: Tensors) -> tuple[Trace, State]:
    """What the backward pass needs, the outputs among it, and the last state of each sequence."""
    x, state, w, memory = _parts(tensors)
    hidden, total = w.hh.shape[1], len(x)
    slots, size = (0, 0) if memory is None else memory.values.shape
    inputs = w.ih.shape[1] - size
    empty = x.new_empty
    trace = Trace(
        output=empty(total, hidden),
        hc=empty(total, hidden + size),
        gates=torch.mm(x, w.ih[:, :inputs].t()),
        attention=empty(total, slots),
        before=empty(total, hidden),
        tanh_cell=empty(total, hidden),
    )
    if w.bias_ih is not None:
        trace.gates.add_(w.bias_ih)
    step = CELLS[cell].step(w, inputs)
    running = [s.clone() for s in state]  # (B, H); rows whose sequence has not begun, or has ended, stay as they are
    keys = None if memory is None else memory.keys.t()
    for part, rows in _steps(batch_sizes, reverse):
        h, hc = running[0][:rows], trace.hc[part]
        hc[:, :hidden] = h
        if memory is not None and keys is not None:
            logits = torch.mm(h, keys) if memory.bias is None else torch.addmm(memory.bias, h, keys)
            torch.softmax(logits, -1, out=trace.attention[part])
            torch.mm(trace.attention[part], memory.values, out=hc[:, hidden:])
        step(Trace(*(tensor[part] for tensor in trace)), [s[:rows] for s in running])
        h.copy_(trace.output[part])
    return trace, tuple(running)


def backward_pass(
    cell: str,
    batch_sizes: Sequence[int],
    reverse: bool,
    tensors: Tensors,
    *,
    trace: Trace,
    d_output: Tensor,
    d_last: Sequence[Tensor],
    wants_x: bool,
) -> Gradients:
    """The gradient of each of the `tensors`; of the inputs only if `wants_x`."""
    x, _, weights, memory = _parts(tensors)
    d_state = [d.clone() for d in d_last]
    steps = _steps(batch_sizes, not reverse)
    found = CELLS[cell].backward(trace, steps, weights, memory, d_output=d_output, d_state=d_state)
    return _weight_gradients(x, trace, found, weights, memory, d_first=(*d_state, None)[:2], wants_x=wants_x)


class _LSTMStep:
    """One step forward, which fills the rows of a trace and moves the running state on."""

    def __init__(self, w: Weights, inputs: int) -> None:
        self.bias = w.bias_hh
        self.weight = torch.cat((w.hh, w.ih[:, inputs:]), dim=1).t()  # (H + M, 4H)

    def __call__(self, at: Trace, running: list[Tensor]) -> None:
        c, size = running[1], running[1].shape[1]
        at.gates.addmm_(at.hc, self.weight)
        if self.bias is not None:
            at.gates.add_(self.bias)
        i, f, g, o = at.gates.chunk(4, dim=1)
        at.gates[:, : 2 * size].sigmoid_()
        g.tanh_()  # not 2 sigmoid(2x) - 1, which is cheaper and loses all digits near zero
        o.sigmoid_()
        at.before.copy_(c)
        c.mul_(f).addcmul_(i, g)
        torch.tanh(c, out=at.tanh_cell)
        torch.mul(o, at.tanh_cell, out=at.output)


class _GRUStep:
    """As `_LSTMStep`."""

    def __init__(self, w: Weights, inputs: int) -> None:
        self.bias = w.bias_hh
        self.hidden, self.content = w.hh.t(), w.ih[:, inputs:].t()  # (H, 3H), (M, 3H)

    def __call__(self, at: Trace, running: list[Tensor]) -> None:
        h, size = running[0], running[0].shape[1]
        if len(self.content):
            at.gates.addmm_(at.hc[:, size:], self.content)
        inner = torch.mm(h, self.hidden) if self.bias is None else torch.addmm(self.bias, h, self.hidden)
        at.gates[:, : 2 * size].add_(inner[:, : 2 * size]).sigmoid_()
        r, z, n = at.gates.chunk(3, dim=1)
        at.before.copy_(inner[:, 2 * size :])
        n.addcmul_(r, at.before).tanh_()
        torch.lerp(n, h, z, out=at.output)  # n + z (h - n)


def _lstm_backward(
    trace: Trace,
    steps: list[tuple[slice, int]],
    w: Weights,
    memory: Memory | None,
    *,
    d_output: Tensor,
    d_state: list[Tensor],
) -> StepGradients:
    size = trace.output.shape[1]
    i, f, g, o = trace.gates.chunk(4, dim=1)
    tanh = trace.tanh_cell
    found = StepGradients(
        d := torch.empty_like(trace.gates), d, torch.empty_like(trace.hc), torch.empty_like(trace.attention)
    )
    # First the derivatives by what follows each gate; each step multiplies them by what comes back to it.
    torch.mul(g * i, 1 - i, out=d[:, :size])
    torch.mul(trace.before * f, 1 - f, out=d[:, size : 2 * size])
    torch.addcmul(i, i, g * g, value=-1, out=d[:, 2 * size : 3 * size])
    torch.mul(tanh * o, 1 - o, out=d[:, 3 * size :])
    through = torch.addcmul(o, o, tanh * tanh, value=-1)  # from h to the cell
    weight = torch.cat((w.hh, w.ih[:, w.ih.shape[1] - trace.hc.shape[1] + size :]), dim=1)  # (4H, H + M)
    for part, rows in steps:
        dh, dc, dg = d_state[0][:rows], d_state[1][:rows], d[part]
        dh += d_output[part]
        dc.addcmul_(dh, through[part])
        dg[:, : 3 * size].view(rows, 3, size).mul_(dc.unsqueeze(1))
        dg[:, 3 * size :].mul_(dh)
        dc.mul_(f[part])
        torch.mm(dg, weight, out=found.hc[part])
        dh.copy_(found.hc[part, :size])
        _memory_backward(trace, found, part, dh, memory)
    return found


def _gru_backward(
    trace: Trace,
    steps: list[tuple[slice, int]],
    w: Weights,
    memory: Memory | None,
    *,
    d_output: Tensor,
    d_state: list[Tensor],
) -> StepGradients:
    size = trace.output.shape[1]
    r, z, n = trace.gates.chunk(3, dim=1)
    d, inner = torch.empty_like(trace.gates), torch.empty_like(trace.gates)
    found = StepGradients(d, inner, torch.empty_like(trace.hc), torch.empty_like(trace.attention))
    torch.mul(1 - z, 1 - n * n, out=d[:, 2 * size :])
    torch.mul(d[:, 2 * size :] * trace.before * r, 1 - r, out=d[:, :size])
    torch.mul((trace.hc[:, :size] - n) * z, 1 - z, out=d[:, size : 2 * size])
    content = w.ih[:, w.ih.shape[1] - trace.hc.shape[1] + size :]  # (3H, M)
    for part, rows in steps:
        dh, dg = d_state[0][:rows], d[part]
        dh += d_output[part]
        dg.view(rows, 3, size).mul_(dh.unsqueeze(1))
        inner[part, : 2 * size] = dg[:, : 2 * size]
        torch.mul(dg[:, 2 * size :], r[part], out=inner[part, 2 * size :])
        dh.mul_(z[part]).addmm_(inner[part], w.hh)
        if content.shape[1]:
            torch.mm(dg, content, out=found.hc[part, size:])
        _memory_backward(trace, found, part, dh, memory)
    return found


def _memory_backward(trace: Trace, found: StepGradients, part: slice, dh: Tensor, memory: Memory | None) -> None:
    """Add to dh what comes back through the slots that were read."""
    if memory is None:
        return
    d_content = found.hc[part, dh.shape[1] :]
    d_attention = torch.mm(d_content, memory.values.t())
    attention = trace.attention[part]
    found.logits[part] = torch._softmax_backward_data(d_attention, attention, -1, attention.dtype)
    dh.addmm_(found.logits[part], memory.keys)


def _weight_gradients(
    x: Tensor,
    trace: Trace,
    found: StepGradients,
    w: Weights,
    memory: Memory | None,
    *,
    d_first: tuple[Tensor | None, ...],
    wants_x: bool,
) -> Gradients:
    """The gradient of each of the `Tensors`: one product each for all steps."""
    size, inputs = trace.output.shape[1], x.shape[1]
    h, c = trace.hc[:, :size], trace.hc[:, size:]
    turned = found.gates.t()
    d_x = torch.mm(found.gates, w.ih[:, :inputs]) if wants_x else None
    d_ih = torch.empty_like(w.ih)
    torch.mm(turned, x, out=d_ih[:, :inputs])
    if c.shape[1]:
        torch.mm(turned, c, out=d_ih[:, inputs:])
    d_hh = torch.mm(found.inner.t(), h)
    d_bias = None if w.bias_ih is None else found.gates.sum(0)
    d_inner = d_bias if found.inner is found.gates or d_bias is None else found.inner.sum(0)
    d_memory: tuple[Tensor | None, ...] = NO_MEMORY
    if memory is not None:
        logits = found.logits
        d_bank = logits.sum(0) if memory.bias is not None else None
        d_memory = (torch.mm(logits.t(), h), torch.mm(trace.attention.t(), found.hc[:, size:]), d_bank)
    return (d_x, *d_first, d_ih, d_hh, d_bias, d_inner, *d_memory)


def _steps(batch_sizes: Sequence[int], reverse: bool) -> list[tuple[slice, int]]:
    """Where each step's rows are, and how many, in the order of the steps."""
    steps, at = [], 0
    for rows in batch_sizes:
        steps.append((slice(at, at + rows), rows))
        at += rows
    return steps[::-1] if reverse else steps


def _parts(tensors: Tensors) -> tuple[Tensor, State, Weights, Memory | None]:
    x, h, c, ih, hh, bias_ih, bias_hh, keys, values, bias = tensors
    assert x is not None
    assert h is not None
    assert ih is not None
    assert hh is not None
    memory = None if keys is None or values is None else Memory(keys, values, bias)
    return x, (h,) if c is None else (h, c), Weights(ih, hh, bias_ih, bias_hh), memory


class _Cell(NamedTuple):
    step: Callable[[Weights, int], Callable[[Trace, list[Tensor]], None]]  # from weights and the number of inputs
    backward: Callable[..., StepGradients]


CELLS = {"lstm": _Cell(_LSTMStep, _lstm_backward), "gru": _Cell(_GRUStep, _gru_backward)}
