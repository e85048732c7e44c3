"""The recurrence as persistent kernels on a GPU: all directions of a layer in one launch for each pass.

A few large products stand around the two launches (gemms.py): inputs of all steps before the forward pass, gradients
of all weights after the backward pass. There are two families of kernels. Where TF32 is allowed, and for bfloat16,
clusters of blocks run the steps in half precision (cluster.py), if the layer is not too large for them. Otherwise all
blocks of the GPU run them together (grid.py), in float32 or TF32.

grid.cu stays, although memgrow's own commands allow TF32 and hardly reach it: it is the only fast kernel for whoever
uses the layer with torch's defaults, which do not allow TF32, and for layers that are too large for any cluster.
Without it both would fall back to `stepped`, which takes 2 to 20 times as long (results/recurrence-h200.json).

Calls that repeat are recorded and replayed (recordings.py).

The surface for the rest of memgrow is here. A layer uses `obstacle` and `recur`. A stack of models has products of its
own around the kernels: it uses `runs_in_clusters`, `prepare` and `cluster_kernel`, with the types of layer.py.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from memgrow.nn.kernels.autograd import NAIVE, Gradients, first_order
from memgrow.nn.kernels.cuda import cluster, nvrtc
from memgrow.nn.kernels.cuda.cluster import ClusterKernel, plan_for
from memgrow.nn.kernels.cuda.cluster_plan import Clusters, Sizes
from memgrow.nn.kernels.cuda.grid import Shape
from memgrow.nn.kernels.cuda.layer import LSTM as CELLS
from memgrow.nn.kernels.cuda.layer import Kernel, Layer, Reading, Trace, exact, processors, steps_of
from memgrow.nn.kernels.cuda.nvrtc import UnavailableError
from memgrow.nn.kernels.cuda.recordings import Call, Recordings, Replay
from memgrow.nn.kernels.naive import NO_MEMORY, Direction, State


def obstacle(cell: str, data: Tensor, directions: Sequence[Direction]) -> str | None:
    """Why these kernels cannot run a layer here; None if they can."""
    if cell not in CELLS:
        return f"the fast kernels know {' and '.join(CELLS)}, not {cell}"
    if data.dtype not in (torch.float32, torch.bfloat16):
        return f"the fast kernels compute in float32 or bfloat16, not {data.dtype}"
    if torch.cuda.get_device_capability(data.device) < (9, 0):
        return "the fast kernels need a GPU of compute capability 9.0 or above"
    parts = [t for d in directions for t in (*d.state, *d.weights, *(d.memory or ())) if t is not None]
    if any(part.device != data.device for part in parts):
        return "weights, states and input are not all on one device"
    first = directions[0]
    slots, slot_size = (0, 0) if first.memory is None else first.memory.values.shape
    sizes = (len(directions), len(first.state[0]), first.weights.hh.shape[1], slots)
    if not exact(data.dtype) and plan_for(Sizes(cell, *sizes, slot_size), data.device) is not None:
        return None
    shape = Shape.of(*sizes, processors(data.device))
    if shape is None:
        return f"{first.weights.hh.shape[1]} hidden units are too many for this GPU's fast kernels"
    if max(shape.plan(cell, True, forward).shared for forward in (True, False)) > nvrtc.SHARED_LIMIT:
        return "the batch or the bank is too large for this GPU's fast kernels"
    return None


def recur(
    cell: str,
    data: Tensor,
    batch_sizes: Sequence[int],
    directions: Sequence[Direction],
    recordings: Recordings | None = None,
) -> tuple[Tensor, list[State]]:
    """The outputs of all directions side by side (T, D * H), and the last states of each.

    With `recordings`, calls that repeat are recorded there, and replayed.
    """
    tensors: list[Tensor | None] = [data]
    for d in directions:
        tensors += [*(*d.state, None)[:2], *d.weights, *(d.memory or NO_MEMORY)[:3]]
    reverse = tuple(d.reverse for d in directions)
    trains = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    call = Call(cell, tuple(batch_sizes), reverse, trains, trains and data.requires_grad)
    output, *last = Recurrence.apply(call, recordings, *tensors)  # type: ignore[no-untyped-call]
    size = len(last) // len(directions)
    return output, [tuple(last[size * n : size * (n + 1)]) for n in range(len(directions))]


def runs_in_clusters(sizes: Sizes, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether `cluster_kernel` can run a layer of these sizes."""
    return _plan(sizes, dtype, device) is not None


def prepare(sizes: Sizes, dtype: torch.dtype, device: torch.device, with_gradient: bool) -> None:
    """Begin to compile what `cluster_kernel` will need for a layer of these sizes, if it can run it."""
    plan = _plan(sizes, dtype, device)
    if plan is not None:
        cluster.prepare(plan, with_gradient, device)


def _plan(sizes: Sizes, dtype: torch.dtype, device: torch.device) -> Clusters | None:
    if device.type != "cuda" or sizes.directions > 2 or exact(dtype):
        return None
    return plan_for(sizes, device) if torch.cuda.get_device_capability(device) >= (9, 0) else None


def cluster_kernel(layer: Layer, slot_size: int = 0) -> Kernel:
    """The kernel of clusters for a layer for which `runs_in_clusters`."""
    sizes = Sizes(layer.cell, layer.directions, layer.batch, layer.hidden, layer.slots, slot_size)
    plan = plan_for(sizes, layer.device)
    assert plan is not None
    return ClusterKernel(layer, plan)


class Recurrence(torch.autograd.Function):
    """All directions of a layer: packed outputs side by side, and the last states."""

    @staticmethod
    def forward(ctx: Any, call: Call, recordings: Recordings | None, *tensors: Tensor | None) -> Any:
        ctx.save_for_backward(*tensors)  # not for their values, but to notice where one is changed before the backward
        replayed = None if recordings is None else recordings.replay(call, tensors)
        if replayed is not None:
            ctx.run, outputs = replayed
            return tuple(outputs)
        ctx.run = call.run(tensors)
        return ctx.run.forward()

    @staticmethod
    @first_order("this backend", NAIVE)
    def backward(ctx: Any, saved: Sequence[Tensor], d_output: Tensor, *d_last: Tensor) -> Gradients:
        if isinstance(ctx.run, Replay):
            return (None, None, *ctx.run.backward(saved, (d_output, *d_last)))
        return (None, None, *ctx.run.backward(d_output, d_last, ctx.needs_input_grad[2:]))


__all__ = [
    "CELLS",
    "Kernel",
    "Layer",
    "Reading",
    "Recordings",
    "Sizes",
    "Trace",
    "UnavailableError",
    "cluster_kernel",
    "obstacle",
    "prepare",
    "recur",
    "runs_in_clusters",
    "steps_of",
]
