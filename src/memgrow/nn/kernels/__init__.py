"""The recurrence: one function over several backends.

naive     the equations as a plain loop: every cell, every device, gradients of gradients, torch.func, torch.export
stepped   few, large operations for each step (stepped.py): LSTM and GRU, every device; on a CPU both directions of a
          large layer at the same time (parallel_directions.py)
torch     torch's own layers, for a layer without slots on a CPU: all cells for inference, plain RNNs for training too
cuda      one persistent kernel for each pass (cuda/): LSTM and GRU, GPUs of compute capability 9.0 or above

`auto` takes the fastest that can run a layer as it is called. A graph of torch.compile holds the stepped backend on a
CPU as one operator (operator.py); on other devices the fast ones run outside of compiled graphs (uncompiled.py).
The package cuda is imported only when the data is on a GPU.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from memgrow.errors import SettingsError
from memgrow.nn.kernels import naive, parallel_directions, stepped
from memgrow.nn.kernels.autograd import plain_operations_needed
from memgrow.nn.kernels.naive import CELLS, Direction, Memory, State, Weights, attend

if TYPE_CHECKING:
    from memgrow.nn.kernels.cuda import Recordings

BACKENDS = ("auto", "naive", "stepped", "cuda")

_broken: str | None = None  # why the GPU's kernels could not be compiled or started, once that has been tried


def run(
    cell: str,
    data: Tensor,
    batch_sizes: Sequence[int],
    directions: Sequence[Direction],
    backend: str = "auto",
    recordings: "Recordings | None" = None,
) -> tuple[Tensor, list[State]]:
    """Run one layer: the states of all directions side by side (rows, D * H), and the last states of each.

    The backend cuda records calls that repeat in `recordings`, if given, and replays them.
    """
    kind = data.device.type
    if torch.is_autocast_enabled(kind):  # the fast backends compute in the weights' dtype, whatever the inputs are
        data, directions = _in_dtype_of_weights(data, directions)
        with torch.autocast(kind, enabled=False):
            return run(cell, data, batch_sizes, directions, backend, recordings)
    # Asked before the choice, which looks at the GPU and reckons with sizes: none of that can be traced.
    if torch.compiler.is_dynamo_compiling() and _may_be_fast(cell, backend):
        if kind == "cpu" and backend != "cuda":
            from memgrow.nn.kernels import operator

            return operator.recur(cell, data, batch_sizes, directions)
        from memgrow.nn.kernels import uncompiled

        given = (cell, data, batch_sizes, directions, backend, recordings)
        found: tuple[Tensor, list[State]] = uncompiled.call(run, *given)
        return found
    chosen, _ = choose(cell, data, directions, backend)
    if chosen == "torch":
        if cell not in stepped.CELLS or not parallel_directions.suits(data, batch_sizes, directions):
            return _run_torch(cell, data, batch_sizes, directions)
        chosen = "stepped"  # both directions at the same time are faster
    if chosen == "cuda":
        on_gpu = _run_cuda(cell, data, batch_sizes, directions, required=backend == "cuda", recordings=recordings)
        if on_gpu is not None:
            return on_gpu
        chosen = "stepped"
    if chosen == "stepped" and parallel_directions.suits(data, batch_sizes, directions):
        return parallel_directions.recur(cell, data, batch_sizes, directions)
    recur = naive.recur if chosen == "naive" else stepped.recur
    outputs, last = zip(*(recur(cell, data, batch_sizes, d) for d in directions), strict=True)
    return torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0], list(last)


def choose(cell: str, data: Tensor, directions: Sequence[Direction], backend: str = "auto") -> tuple[str, str]:
    """The backend that runs a layer as it is called here, and why it is that one."""
    if backend not in BACKENDS:
        raise SettingsError(f"unknown backend {backend!r}; choose one of {', '.join(BACKENDS)}")
    if backend == "naive":
        return backend, "asked for"
    plain = plain_operations_needed()
    if backend != "auto":
        obstacle = plain and f"{plain}; the backend naive has them"
        if backend == "stepped" and cell not in stepped.CELLS:
            obstacle = f"it supports {' and '.join(stepped.CELLS)}, not {cell}"
        elif backend == "cuda":
            obstacle = obstacle or _cuda_obstacle(cell, data, directions)
        if obstacle is not None:
            raise SettingsError(f"the backend {backend} cannot run this layer: {obstacle}")
        return backend, "asked for"
    if plain is not None:
        return "naive", plain
    if data.is_cuda:
        obstacle = _broken or _cuda_obstacle(cell, data, directions)
        if obstacle is None:
            return "cuda", "LSTM and GRU have dedicated kernels on this GPU"
        return ("stepped" if cell in stepped.CELLS else "naive"), obstacle
    if _suits_torch(cell, data, directions):
        return "torch", "a layer without slots is torch's own"
    if cell in stepped.CELLS:
        return "stepped", "LSTM and GRU have a hand-written backward pass with few, large operations"
    return "naive", f"{cell} with slots has no fast backend"


def _may_be_fast(cell: str, backend: str) -> bool:
    return backend != "naive" and cell in stepped.CELLS and plain_operations_needed() is None


def _suits_torch(cell: str, data: Tensor, directions: Sequence[Direction]) -> bool:
    """Whether torch's own layer can run this one, and is faster: with gradients, stepped is for LSTM and GRU."""
    if data.device.type != "cpu" or torch.compiler.is_compiling() or any(d.memory is not None for d in directions):
        return False
    if data.dtype not in (torch.float32, torch.float64) or data.dtype != directions[0].weights.hh.dtype:
        return False
    tensors = (data, *(t for d in directions for t in (*d.state, *d.weights) if t is not None))
    return cell not in stepped.CELLS or not torch.is_grad_enabled() or not any(t.requires_grad for t in tensors)


def _run_torch(
    cell: str, data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction]
) -> tuple[Tensor, list[State]]:
    states = [torch.stack(parts) for parts in zip(*(d.state for d in directions), strict=True)]
    weights = [t for d in directions for t in d.weights if t is not None]
    biased, both = directions[0].weights.bias_ih is not None, len(directions) > 1
    function: Any = getattr(torch._VF, cell)
    output, *last = function(
        data, torch.tensor(batch_sizes), states if cell == "lstm" else states[0], weights, biased, 1, 0.0, False, both
    )
    return output, [tuple(part[d] for part in last) for d in range(len(directions))]


def _run_cuda(
    cell: str,
    data: Tensor,
    batch_sizes: Sequence[int],
    directions: Sequence[Direction],
    *,
    required: bool,
    recordings: "Recordings | None",
) -> tuple[Tensor, list[State]] | None:
    """None if the kernels cannot be compiled or started here and are not `required`."""
    global _broken
    from memgrow.nn.kernels import cuda

    try:
        return cuda.recur(cell, data, batch_sizes, directions, recordings)
    except cuda.UnavailableError as error:
        if required:
            raise
        _broken = str(error)
        return None


def _cuda_obstacle(cell: str, data: Tensor, directions: Sequence[Direction]) -> str | None:
    if not data.is_cuda:
        return "the input is not on a GPU"
    from memgrow.nn.kernels import cuda

    return cuda.obstacle(cell, data, directions)


def new_recordings() -> "Recordings":
    """For calls on a GPU that repeat; they hold a lock, which cannot be traced."""
    if torch.compiler.is_dynamo_compiling():
        from memgrow.nn.kernels import uncompiled

        found: Recordings = uncompiled.call(_new_recordings)
        return found
    return _new_recordings()


def _new_recordings() -> "Recordings":
    from memgrow.nn.kernels.cuda import Recordings

    return Recordings()


def _in_dtype_of_weights(data: Tensor, directions: Sequence[Direction]) -> tuple[Tensor, list[Direction]]:
    dtype = directions[0].weights.hh.dtype
    states = [tuple(part.to(dtype) for part in d.state) for d in directions]
    return data.to(dtype), [d._replace(state=state) for d, state in zip(directions, states, strict=True)]


__all__ = ["BACKENDS", "CELLS", "Direction", "Memory", "State", "Weights", "attend", "choose", "new_recordings", "run"]
