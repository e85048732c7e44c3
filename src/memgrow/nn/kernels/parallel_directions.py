"""Both directions of a layer on a CPU at the same time, each on half of the threads.

A step's products are too small to be shared by many threads: these spend much of their time waiting for each other, and
most of it when another program has one of the cores. Two directions need not wait until both are done.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from memgrow.nn.kernels import stepped as cpu
from memgrow.nn.kernels.naive import Direction, State

T = TypeVar("T")
WORTHWHILE = 1 << 25  # multiplications of a step: below this, handing work over costs more than it saves
EACH = 9  # tensors of a direction

_second: ThreadPoolExecutor | None = None  # the thread that walks the second direction


def suits(data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction]) -> bool:
    """Whether there are two directions, threads for both, and enough to do."""
    if data.device.type != "cpu" or len(directions) != 2 or torch.get_num_threads() < 2:
        return False
    weights = directions[0].weights
    return len(data) // len(batch_sizes) * (weights.ih.numel() + weights.hh.numel()) >= WORTHWHILE


def recur(
    cell: str, data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction]
) -> tuple[Tensor, list[State]]:
    """As `cpu.recur` for each direction: their outputs side by side (rows, 2H), and the last states of each."""
    tensors = [t for d in directions for t in (*(*d.state, None)[:2], *d.weights, *(d.memory or (None, None, None)))]
    turned = [d.reverse for d in directions]
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (data, *tensors)):
        output, *last = _Abreast.apply(cell, batch_sizes, turned, data, *tensors)  # type: ignore[no-untyped-call]
    else:
        walked = _both([_walker(cell, batch_sizes, *of) for of in zip(turned, _parts(data, tensors), strict=True)])
        output = torch.cat([trace.output for trace, _ in walked], dim=1)
        last = [part for _, state in walked for part in state]
    size = len(directions[0].state)
    return output, [tuple(last[:size]), tuple(last[size:])]


class _Abreast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cell: str, batch_sizes: Sequence[int], turned: list[bool], *tensors: Tensor | None) -> Any:
        data, *rest = tensors
        assert data is not None
        walked = _both([_walker(cell, batch_sizes, *of) for of in zip(turned, _parts(data, rest), strict=True)])
        ctx.setting = cell, batch_sizes, turned
        ctx.save_for_backward(*tensors, *(part for trace, _ in walked for part in trace))
        output = torch.cat([trace.output for trace, _ in walked], dim=1)
        return (output, *(part for _, state in walked for part in state))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor, *d_last: Tensor) -> Any:
        cell, batch_sizes, turned = ctx.setting
        count = 1 + EACH * len(turned)
        data, *rest = ctx.saved_tensors[:count]
        kept = ctx.saved_tensors[count:]
        each, states = len(kept) // len(turned), len(d_last) // len(turned)
        work = [
            _back_walker(
                cell,
                batch_sizes,
                turned[number],
                part,
                cpu.Trace(*kept[number * each : (number + 1) * each]),
                d_output.chunk(len(turned), dim=1)[number],
                d_last[number * states : (number + 1) * states],
                ctx.needs_input_grad[3],
            )
            for number, part in enumerate(_parts(data, rest))
        ]
        with torch.autocast("cpu", enabled=False):
            found = _both(work)
        wanted = [one[0] for one in found if one[0] is not None]
        d_data = torch.stack(wanted).sum(0) if wanted else None
        return (None, None, None, d_data, *(gradient for one in found for gradient in one[1:]))


Part = tuple[Tensor | None, ...]
"""The data and the tensors of one direction, in the order of `cpu.recur`'s."""


def _parts(data: Tensor, tensors: Sequence[Tensor | None]) -> list[Part]:
    return [(data, *tensors[start : start + EACH]) for start in range(0, len(tensors), EACH)]


def _walker(cell: str, batch_sizes: Sequence[int], reverse: bool, part: Part) -> Callable[[], tuple[cpu.Trace, State]]:
    x, state, weights, memory = cpu.parts(part)
    return lambda: cpu.walk(cell, x, batch_sizes, state, weights, memory, reverse)


def _back_walker(
    cell: str,
    batch_sizes: Sequence[int],
    reverse: bool,
    part: Part,
    trace: cpu.Trace,
    d_output: Tensor,
    d_last: Sequence[Tensor],
    wants_x: bool,
) -> Callable[[], tuple[Tensor | None, ...]]:
    return lambda: cpu.walk_back(cell, part, batch_sizes, reverse, trace, d_output, d_last, wants_x)


def _both(work: Sequence[Callable[[], T]]) -> list[T]:
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
        waiting.exception()  # whatever became of it, nothing goes on behind the caller's back
    return [first, waiting.result()]


def _with_threads(threads: int, inference: bool, work: Callable[[], T]) -> T:
    torch.set_num_threads(threads)
    with torch.inference_mode() if inference else torch.no_grad():
        return work()


def _forget() -> None:
    """A process that was forked has no second thread."""
    global _second
    _second = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
