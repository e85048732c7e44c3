"""The LSTM's recurrence for many directions of many models at once: inputs, steps, and the backward pass.

All tensors have the order (T, R, D, ...): steps, texts, then directions and models together. So a step's rows lie side
by side for pointwise work, and every product, be it of one step or of all, takes its matrices from where they are.

All texts begin at step 0 (for a backward direction they are turned round) and a text that has ended runs on to the last
step: what it yields there is for the caller to leave out, and no gradient comes back from it. The steps themselves are
taken by a loop (steps.py) or, where one or two directions are all there is, by the GPU's kernels (kernels.py).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from memgrow.nn.autograd import Gradients, first_order
from memgrow.training.stacked.kernels import KernelSteps
from memgrow.training.stacked.steps import Inner, LoopedSteps, Steps


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
    """(T, R, K, F) with each text's steps in the opposite order; what lies after its end stays."""
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
        (steps, rows), (directions, models, width, _) = seen.shape[:2], ih.shape
        x = seen.new_empty(steps, rows, directions * models, width)
        for direction, part in enumerate(x.view(steps, rows, directions, models, width).unbind(2)):
            source = turned(seen, mirror) if direction else seen
            torch.baddbmm(bias[direction].unsqueeze(1), _all(source), ih[direction].transpose(1, 2), out=_all(part))
        inner = Inner(hh, keys, through, slot_bias)
        ctx.steps = _steps_for(x, inner)
        output: Tensor = ctx.steps.forward(x, inner, any(ctx.needs_input_grad))
        ctx.save_for_backward(seen, mirror, ih, *inner, output)
        return output

    @staticmethod
    @first_order("a stack of models", "train each model alone")
    def backward(ctx: Any, saved: Sequence[Tensor], d_output: Tensor) -> Gradients:
        seen, mirror, ih, *inner, output = saved
        slot_bias = inner[-1]
        d_gates, d_logits, attention = ctx.steps.backward(d_output, Inner(*inner))
        h = torch.cat((torch.zeros_like(output[:1]), output[:-1]))
        d_keys = d_through = d_slot_bias = None
        if d_logits is not None and attention is not None:
            d_keys, d_through = _product(d_logits, h), _product(attention, d_gates)
            d_slot_bias = d_logits.sum((0, 1)) if slot_bias is not None else None
        d_seen, d_ih = _input_back(seen, mirror, ih, d_gates, ctx.needs_input_grad[0])
        d_bias = d_gates.sum((0, 1)).view(*ih.shape[:3])
        return d_seen, None, d_ih, d_bias, _product(d_gates, h), d_keys, d_through, d_slot_bias


def _steps_for(x: Tensor, inner: Inner) -> Steps:
    return KernelSteps() if KernelSteps.suits(x, inner) else LoopedSteps()


def _input_back(
    seen: Tensor, mirror: Tensor, ih: Tensor, d_gates: Tensor, wanted: bool
) -> tuple[Tensor | None, Tensor]:
    """Gradients of the inputs, if wanted, and of the weights that read them."""
    d_seen, d_ih = None, torch.empty_like(ih)
    for direction, part in enumerate(d_gates.view(*seen.shape[:2], *ih.shape[:3]).unbind(2)):
        source = turned(seen, mirror) if direction else seen
        torch.bmm(_all(part).transpose(1, 2), _all(source), out=d_ih[direction])
        if wanted:
            d_source = torch.empty_like(seen)
            torch.bmm(_all(part), ih[direction], out=_all(d_source))
            d_seen = d_source if d_seen is None else d_seen + turned(d_source, mirror)
    return d_seen, d_ih


def _all(rows: Tensor) -> Tensor:
    """(T, R, D, F) as a matrix (T * R, F) for each of D."""
    return rows.flatten(0, 1).transpose(0, 1)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """(T, R, D, A) and (T, R, D, B) to (D, A, B), summed over steps and texts."""
    return torch.bmm(_all(a).transpose(1, 2), _all(b))
