"""The stepped backend as an operator of torch's, which a compiled graph holds as one piece, forward and backward.

Traced, its hand-written passes would come out of Inductor with other gradients (uncompiled.py); an operator is not
looked into. This module is imported while a graph is traced and at no other time.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from memgrow.nn.kernels import parallel_directions, stepped
from memgrow.nn.kernels.naive import CELLS, Direction, State

TRACE = len(stepped.Trace._fields)
NAMES = parallel_directions.EACH  # tensors of a direction


def recur(
    cell: str, data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction]
) -> tuple[Tensor, list[State]]:
    """Run each direction as `stepped.recur` does: outputs side by side (rows, D * H), and the last states of each."""
    every = [data, *parallel_directions.flat(directions)]
    present, tensors = [t is not None for t in every], [t for t in every if t is not None]
    reverse = [d.reverse for d in directions]
    output, *rest = _forward(cell, list(batch_sizes), reverse, present, tensors)
    size = len(directions[0].state)
    return output, [tuple(rest[n : n + size]) for n in range(0, size * len(directions), size)]


@torch.library.custom_op("memgrow::recur", mutates_args=())
def _forward(
    cell: str, batch_sizes: Sequence[int], reverse: Sequence[bool], present: Sequence[bool], tensors: Sequence[Tensor]
) -> list[Tensor]:
    """The outputs, the last states of each direction, and its trace."""
    given = _spread(present, tensors)
    with torch.autocast("cpu", enabled=False):
        at_once = parallel_directions.suit(batch_sizes, given)
        passes = parallel_directions.forward_passes(cell, batch_sizes, reverse, given, at_once)
    if CELLS[cell].states == 1:  # a part of the trace has no use then, but an operator has no results that vary
        for trace, _ in passes:
            trace.tanh_cell.zero_()
    output = torch.cat([trace.output for trace, _ in passes], dim=1)
    return [output, *(part for _, state in passes for part in state), *(part for trace, _ in passes for part in trace)]


@_forward.register_fake
def _(cell: str, batch_sizes: Any, reverse: Any, present: Any, tensors: Any) -> list[Tensor]:
    x, *others = _spread(present, tensors)
    assert x is not None
    total, new, gates = x.shape[0], x.new_empty, CELLS[cell].gates
    last, traces, hidden = [], [], 0
    for at in range(0, len(others), NAMES):
        h, c, _, hh, _, _, keys, values, *_ = others[at : at + NAMES]
        assert h is not None
        assert hh is not None
        hidden, slots, size = hh.shape[1], 0, 0
        if keys is not None and values is not None:
            slots, size = values.shape
        last += [torch.empty_like(part, memory_format=torch.contiguous_format) for part in (h, c) if part is not None]
        widths = (hidden, hidden + size, gates * hidden, slots, hidden, hidden)  # as the fields of Trace
        traces += [new(total, width) for width in widths]
    return [new(total, len(reverse) * hidden), *last, *traces]


@torch.library.custom_op("memgrow::recur_backward", mutates_args=())
def _backward(
    cell: str,
    batch_sizes: Sequence[int],
    reverse: Sequence[bool],
    present: Sequence[bool],
    tensors: Sequence[Tensor],
    *,
    wants_x: bool,
) -> list[Tensor]:
    """From inputs, traces and gradients of results, in `tensors`: the gradient of each input that is present.

    That of the data has no entries, if nobody wants it.
    """
    count = sum(present)
    traced = count + TRACE * len(reverse)
    traces, gradients = tensors[count:traced], tensors[traced:]
    given = _spread(present, tensors[:count])
    with torch.autocast("cpu", enabled=False):
        found = parallel_directions.backward_passes(
            cell,
            batch_sizes,
            reverse,
            given,
            traces,
            d_output=gradients[0],
            d_last=gradients[1:],
            wants_x=wants_x,
            at_once=parallel_directions.suit(batch_sizes, given),
        )
    if found[0] is None:
        found[0] = tensors[0].new_empty(0)
    there = [t for t, given in zip(found, present, strict=True) if given and t is not None]
    # An operator's results share no memory, as those of an LSTM's two biases would.
    return [t.clone() if any(t is other for other in there[:n]) else t for n, t in enumerate(there)]


@_backward.register_fake
def _(cell: str, batch_sizes: Any, reverse: Any, present: Any, tensors: Any, *, wants_x: bool) -> list[Tensor]:
    like = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors[: sum(present)]]
    return like if wants_x else [tensors[0].new_empty(0), *like[1:]]


def _remember(ctx: Any, inputs: Any, output: Sequence[Tensor]) -> None:
    cell, batch_sizes, reverse, present, tensors = inputs
    ctx.settings = cell, batch_sizes, reverse, present
    ctx.save_for_backward(*tensors, *output[len(output) - TRACE * len(reverse) :])


def _gradients(ctx: Any, d_results: Sequence[Tensor]) -> Any:
    cell, batch_sizes, reverse, present = ctx.settings
    wants_x = ctx.needs_input_grad[4][0]
    every = [*ctx.saved_tensors, *d_results[: len(d_results) - TRACE * len(reverse)]]
    found = _backward(cell, batch_sizes, reverse, present, every, wants_x=wants_x)
    return None, None, None, None, found if wants_x else [None, *found[1:]]


_forward.register_autograd(_gradients, setup_context=_remember)


def _spread(present: Sequence[bool], tensors: Sequence[Tensor]) -> list[Tensor | None]:
    rest = iter(tensors)
    return [next(rest) if there else None for there in present]
