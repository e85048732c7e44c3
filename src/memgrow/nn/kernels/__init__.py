"""The recurrence: one function over several backends.

naive     the equations as a plain loop: every cell, every device, gradients of gradients, torch.func, torch.export
stepped   few, large operations for each step (stepped.py): LSTM and GRU, every device; on a CPU both directions of a
          large layer at the same time (parallel_directions.py)
cuda      one persistent kernel for each pass (cuda/): LSTM and GRU, GPUs of compute capability 9.0 or above

`auto` takes the fastest that can run a layer as it is called. A graph of torch.compile holds the stepped backend on a
CPU as one operator (operator.py); on other devices the fast ones run outside of compiled graphs (nn/uncompiled.py).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from memgrow.errors import SettingsError
from memgrow.nn.autograd import plain_operations_needed
from memgrow.nn.kernels import cuda, naive, parallel_directions, stepped
from memgrow.nn.kernels.cuda import Recordings
from memgrow.nn.kernels.naive import CELLS, Direction, Memory, State, Weights, attend

BACKENDS = ("auto", "naive", "stepped", "cuda")

_broken: str | None = None  # why the GPU's kernels could not be compiled or started, once that has been tried


def run(
    cell: str,
    data: Tensor,
    batch_sizes: Sequence[int],
    directions: Sequence[Direction],
    backend: str = "auto",
    recordings: Recordings | None = None,
) -> tuple[Tensor, list[State]]:
    """Run one layer: the states of all directions side by side (rows, D * H), and the last states of each.

    The backend cuda keeps in `recordings`, if there are some, what it replays of calls that repeat.
    """
    global _broken
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
        from memgrow.nn import uncompiled

        given = (cell, data, batch_sizes, directions, backend, recordings)
        found: tuple[Tensor, list[State]] = uncompiled.call(run, *given)
        return found
    chosen, _ = choose(cell, data, directions, backend)
    if chosen == "cuda":
        try:
            return cuda.recur(cell, data, batch_sizes, directions, recordings)
        except cuda.UnavailableError as error:
            if backend == "cuda":
                raise
            _broken = str(error)
            chosen = "stepped"
    if chosen == "stepped" and parallel_directions.suits(data, batch_sizes, directions):
        return parallel_directions.recur(cell, data, batch_sizes, directions)
    recur = naive.recur if chosen == "naive" else stepped.recur
    outputs, last = zip(
        *(recur(cell, data, batch_sizes, d.state, d.weights, d.memory, d.reverse) for d in directions), strict=True
    )
    return torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0], list(last)


def choose(cell: str, data: Tensor, directions: Sequence[Direction], backend: str = "auto") -> tuple[str, str]:
    """The backend that runs a layer as it is called here, and why it is that one."""
    if backend not in BACKENDS:
        raise SettingsError(f"there is no backend {backend!r}; there are {', '.join(BACKENDS)}")
    if backend == "naive":
        return backend, "asked for"
    plain = plain_operations_needed()
    if backend != "auto":
        obstacle = plain and f"{plain}; the backend naive has them"
        if backend == "stepped" and cell not in stepped.CELLS:
            obstacle = f"it knows {' and '.join(stepped.CELLS)}, not {cell}"
        elif backend == "cuda":
            obstacle = obstacle or _cuda_obstacle(cell, data, directions)
        if obstacle is not None:
            raise SettingsError(f"the backend {backend} cannot run this layer: {obstacle}")
        return backend, "asked for"
    if plain is not None:
        return "naive", plain
    if data.is_cuda:
        obstacle = _broken or cuda.obstacle(cell, data, directions)
        if obstacle is None:
            return "cuda", "LSTM and GRU on this GPU have kernels of their own"
        return ("stepped" if cell in stepped.CELLS else "naive"), obstacle
    if cell in stepped.CELLS:
        return "stepped", "LSTM and GRU have a hand-written backward pass with few, large operations"
    return "naive", f"{cell} has no fast backend"


def _may_be_fast(cell: str, backend: str) -> bool:
    return backend != "naive" and cell in stepped.CELLS and plain_operations_needed() is None


def _cuda_obstacle(cell: str, data: Tensor, directions: Sequence[Direction]) -> str | None:
    return cuda.obstacle(cell, data, directions) if data.is_cuda else "the input is not on a GPU"


def _in_dtype_of_weights(data: Tensor, directions: Sequence[Direction]) -> tuple[Tensor, list[Direction]]:
    dtype = directions[0].weights.hh.dtype
    states = [tuple(part.to(dtype) for part in d.state) for d in directions]
    return data.to(dtype), [d._replace(state=state) for d, state in zip(directions, states, strict=True)]


__all__ = ["BACKENDS", "CELLS", "Direction", "Memory", "Recordings", "State", "Weights", "attend", "choose", "run"]
