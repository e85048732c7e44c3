"""The LSTM's recurrence for many directions of many models at once: each step is a few batched products.

All tensors have the order (T, R, D, ...): steps, texts, then directions and models together. So a step's rows lie side
by side for pointwise work, and every product, be it of one step or of all, takes its matrices from where they are.

All texts begin at step 0 (for a backward direction they are turned round) and a text that has ended runs on to the last
step: what it yields there is for the caller to leave out, and no gradient comes back from it. With P = V W', the values
as the gates see them, a step is

    forward    a = softmax(h K' + b)       gates = x[t] + h U' + a P
    backward   d_logits = softmax'(d_gates P')       d_h = d_gates U + d_logits K
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Weights(NamedTuple):
    """The weights of each direction of each model; W directions, K models, D = W * K."""

    ih: Tensor  # (W, K, 4H, F)
    bias: Tensor  # (W, K, 4H)
    hh: Tensor  # (D, 4H, H)


class Slots(NamedTuple):
    """The memory of each direction of each model."""

    keys: Tensor  # (D, N, H)
    through: Tensor  # (D, N, 4H): the values times the weights that read them
    bias: Tensor | None  # (D, N)


def recur(seen: Tensor, mirror: Tensor, weights: Weights, slots: Slots | None) -> Tensor:
    """States (T, R, D, H) after each step, from inputs (T, R, K, F); a backward direction's in its own order.

    `mirror` (T, R, K) says at which step a text that is turned round has what it had at this one.
    """
    memory = slots or (None, None, None)
    output: Tensor = _Recurrence.apply(seen, mirror, *weights, *memory)  # type: ignore[no-untyped-call]
    return output


def turned(states: Tensor, mirror: Tensor) -> Tensor:
    """(T, R, K, F) with each text's steps in the opposite order; what lies behind its end stays."""
    return states.gather(0, mirror.unsqueeze(-1).expand_as(states))


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        seen: Tensor,
        mirror: Tensor,
        ih: Tensor,
        bias: Tensor,
        hh: Tensor,
        keys: Tensor | None,
        through: Tensor | None,
        slot_bias: Tensor | None,
    ) -> Tensor:
        (steps, rows), (ways, models, width, _) = seen.shape[:2], ih.shape
        stacked, hidden = ways * models, width // 4
        x = seen.new_empty(steps, rows, stacked, width)
        for way, part in enumerate(x.view(steps, rows, ways, models, width).unbind(2)):
            source = turned(seen, mirror) if way else seen
            torch.baddbmm(bias[way].unsqueeze(1), _all(source), ih[way].transpose(1, 2), out=_all(part))
        h, c = x.new_zeros(2, rows, stacked, hidden)
        output, inner = x.new_empty(steps, rows, stacked, hidden), x.new_empty(rows, stacked, width)
        attention = logits = None
        if keys is not None:
            attention = x.new_empty(steps, rows, stacked, keys.shape[1])
            logits = torch.empty_like(attention[0])
        cells, gates, wanted = [c], [], any(ctx.needs_input_grad)
        for t in range(steps):
            torch.bmm(_each(h), hh.transpose(1, 2), out=_each(inner))
            if keys is not None and through is not None and attention is not None and logits is not None:
                torch.bmm(_each(h), keys.transpose(1, 2), out=_each(logits))
                if slot_bias is not None:
                    logits += slot_bias
                torch.softmax(logits, -1, out=attention[t])
                _each(inner).baddbmm_(_each(attention[t]), through)
            h, c, gate = _step(x[t], inner, c)
            output[t] = h
            if wanted:
                cells.append(c)
                gates.append(gate)
        ctx.save_for_backward(seen, mirror, ih, hh, keys, through, slot_bias, output, attention)
        ctx.trace = cells, gates
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor) -> Any:
        seen, mirror, ih, hh, keys, through, slot_bias, output, attention = ctx.saved_tensors
        cells, gates = ctx.trace
        d_gates = output.new_empty(*output.shape[:3], hh.shape[1])
        d_logits = None if attention is None else torch.empty_like(attention)
        d_attention = None if attention is None else torch.empty_like(attention[0])
        dh, dc = d_output[-1].contiguous(), torch.zeros_like(cells[0])
        for t in reversed(range(len(output))):
            d, dc = _step_back(dh, dc, cells[t], cells[t + 1], gates[t])
            d_gates[t] = d
            dh = d_output[t - 1].contiguous().clone() if t else torch.zeros_like(dh)
            _each(dh).baddbmm_(_each(d), hh)
            if d_logits is not None and d_attention is not None:
                torch.bmm(_each(d), through.transpose(1, 2), out=_each(d_attention))
                d_logits[t] = torch._softmax_backward_data(d_attention, attention[t], -1, attention.dtype)
                _each(dh).baddbmm_(_each(d_logits[t]), keys)
        h = torch.cat((torch.zeros_like(output[:1]), output[:-1]))
        d_keys = d_through = d_slot_bias = None
        if d_logits is not None:
            d_keys, d_through = _product(d_logits, h), _product(attention, d_gates)
            d_slot_bias = d_logits.sum((0, 1)) if slot_bias is not None else None
        d_seen, d_ih = _input_back(seen, mirror, ih, d_gates, ctx.needs_input_grad[0])
        d_bias = d_gates.sum((0, 1)).view(*ih.shape[:3])
        return d_seen, None, d_ih, d_bias, _product(d_gates, h), d_keys, d_through, d_slot_bias


def _input_back(
    seen: Tensor, mirror: Tensor, ih: Tensor, d_gates: Tensor, wanted: bool
) -> tuple[Tensor | None, Tensor]:
    """Gradients of the inputs, if wanted, and of the weights that read them."""
    d_seen, d_ih = None, torch.empty_like(ih)
    for way, part in enumerate(d_gates.view(*seen.shape[:2], *ih.shape[:3]).unbind(2)):
        source = turned(seen, mirror) if way else seen
        torch.bmm(_all(part).transpose(1, 2), _all(source), out=d_ih[way])
        if wanted:
            d_source = torch.empty_like(seen)
            torch.bmm(_all(part), ih[way], out=_all(d_source))
            d_seen = d_source if d_seen is None else d_seen + turned(d_source, mirror)
    return d_seen, d_ih


def _each(rows: Tensor) -> Tensor:
    """(R, D, F) as a matrix (R, F) for each of D."""
    return rows.transpose(0, 1)


def _all(rows: Tensor) -> Tensor:
    """(T, R, D, F) as a matrix (T * R, F) for each of D."""
    return rows.flatten(0, 1).transpose(0, 1)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """(T, R, D, A) and (T, R, D, B) to (D, A, B), summed over steps and texts."""
    return torch.bmm(_all(a).transpose(1, 2), _all(b))


def _step(x: Tensor, inner: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The new state, the new cell, and the gates behind their nonlinearities."""
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
