"""Both directions of a layer on a CPU at the same time, each on half of the threads.

A step's products are too small to be shared by many threads: these spend much of their time waiting for each other, and
most of it when another program has one of the cores. Two directions need not wait until both are done.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from memgrow.nn.kernels import stepped
from memgrow.nn.kernels.autograd import NAIVE, Gradients, first_order
from memgrow.nn.kernels.naive import NO_MEMORY, Direction, State
from memgrow.nn.kernels.stepped import Tensors

T = TypeVar("T")
WORTHWHILE = 1 << 25  # multiplications of a step: below this, handing work over costs more than it saves
EACH = 9  # tensors of a direction

_second: ThreadPoolExecutor | None = None  # the thread that runs the second direction


def suits(data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction]) -> bool:
    """Whether there are two directions, threads for both, and enough to do."""
    return suit(batch_sizes, (data, *flat(directions)))


def suit(batch_sizes: Sequence[int], tensors: Tensors) -> bool:
    """The same by the inputs and the tensors of the directions."""
    data, _, _, ih, hh, *_ = tensors
    assert data is not None
    assert ih is not None
    assert hh is not None
    if data.device.type != "cpu" or len(tensors) != 1 + 2 * EACH or torch.get_num_threads() < 2:
        return False
    return len(data) // len(batch_sizes) * (ih.numel() + hh.numel()) >= WORTHWHILE


def flat(directions: Sequence[Direction]) -> list[Tensor | None]:
    """The tensors of all directions, `EACH` of each."""
    return [t for d in directions for t in (*(*d.state, None)[:2], *d.weights, *(d.memory or NO_MEMORY))]


def recur(
    cell: str, data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction]
) -> tuple[Tensor, list[State]]:
    """Run each direction as `stepped.recur` does: outputs side by side (rows, 2H), and the last states of each."""
    tensors = flat(directions)
    reverse = [d.reverse for d in directions]
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (data, *tensors)):
        output, *last = _BothDirections.apply(cell, batch_sizes, reverse, data, *tensors)  # type: ignore[no-untyped-call]
    else:
        passes = forward_passes(cell, batch_sizes, reverse, (data, *tensors))
        output = torch.cat([trace.output for trace, _ in passes], dim=1)
        last = [part for _, state in passes for part in state]
    size = len(directions[0].state)
    return output, [tuple(last[:size]), tuple(last[size:])]


class _BothDirections(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cell: str, batch_sizes: Sequence[int], reverse: list[bool], *tensors: Tensor | None) -> Any:
        passes = forward_passes(cell, batch_sizes, reverse, tensors)
        ctx.settings = cell, batch_sizes, reverse
        ctx.save_for_backward(*tensors, *(part for trace, _ in passes for part in trace))
        output = torch.cat([trace.output for trace, _ in passes], dim=1)
        return (output, *(part for _, state in passes for part in state))

    @staticmethod
    @first_order("this backend", NAIVE)
    def backward(ctx: Any, saved: Sequence[Tensor], d_output: Tensor, *d_last: Tensor) -> Gradients:
        cell, batch_sizes, reverse = ctx.settings
        count, wants_x = 1 + EACH * len(reverse), ctx.needs_input_grad[3]
        given = (cell, batch_sizes, reverse, saved[:count], saved[count:])
        return (None, None, None, *backward_passes(*given, d_output=d_output, d_last=d_last, wants_x=wants_x))


# The next two run the directions at the same time or, if that would not pay, one after the other.


def forward_passes(
    cell: str, batch_sizes: Sequence[int], reverse: Sequence[bool], tensors: Tensors, at_once: bool = True
) -> list[tuple[stepped.Trace, State]]:
    """The trace and the last state of each direction."""
    pairs = zip(reverse, _by_direction(tensors), strict=True)
    work = [partial(stepped.forward_pass, cell, batch_sizes, backwards, own) for backwards, own in pairs]
    return _at_once(work) if at_once else [one() for one in work]


def backward_passes(
    cell: str,
    batch_sizes: Sequence[int],
    reverse: Sequence[bool],
    tensors: Tensors,
    traces: Sequence[Tensor],
    *,
    d_output: Tensor,
    d_last: Sequence[Tensor],
    wants_x: bool,
    at_once: bool = True,
) -> list[Tensor | None]:
    """The gradient of each of the tensors; of the inputs only if `wants_x`."""
    each, states = len(traces) // len(reverse), len(d_last) // len(reverse)
    work = [
        partial(
            stepped.backward_pass,
            cell,
            batch_sizes,
            reverse[d],
            own,
            trace=stepped.Trace(*traces[d * each : (d + 1) * each]),
            d_output=d_output.chunk(len(reverse), dim=1)[d],
            d_last=d_last[d * states : (d + 1) * states],
            wants_x=wants_x,
        )
        for d, own in enumerate(_by_direction(tensors))
    ]
    found = _at_once(work) if at_once else [one() for one in work]
    wanted = [one[0] for one in found if one[0] is not None]
    d_data = torch.stack(wanted).sum(0) if wanted else None
    return [d_data, *(gradient for one in found for gradient in one[1:])]


def _by_direction(tensors: Tensors) -> list[Tensors]:
    """For each direction the inputs, which all share, and its own tensors."""
    return [(tensors[0], *tensors[start : start + EACH]) for start in range(1, len(tensors), EACH)]


def _at_once(work: Sequence[Callable[[], T]]) -> list[T]:
    """Do two things at the same time, on half of the threads each."""
    global _second
    threads = torch.get_num_threads()
    if _second is None:
        _second = ThreadPoolExecutor(1, "memgrow-direction")
    waiting = _second.submit(_with_threads, threads // 2, torch.is_inference_mode_enabled(), work[1])
    torch.set_num_threads(threads - threads // 2)
    try:
        first = work[0]()
    finally:
        torch.set_num_threads(threads)
        waiting.exception()  # whatever became of it, nothing goes on after the caller has gone on
    return [first, waiting.result()]


def _with_threads(threads: int, inference: bool, work: Callable[[], T]) -> T:
    torch.set_num_threads(threads)
    with torch.inference_mode() if inference else torch.no_grad():
        return work()


def _forget() -> None:
    """Forget the second thread: a process that was forked has none."""
    global _second
    _second = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
