"""The recurrence, in several ways behind one function.

naive   the equations, a plain loop: every cell, every device, gradients of gradients
stepped few, large operations for a step (cpu.py): LSTM and GRU, every device; on a CPU both directions of a large layer
        at the same time (abreast.py)
cuda    one persistent kernel each way (cuda.py): LSTM and GRU, GPUs of compute capability 9.0 or above
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from memgrow.errors import SettingsError
from memgrow.nn.kernels import cuda, naive
from memgrow.nn.kernels import parallel_directions as abreast
from memgrow.nn.kernels import stepped as cpu
from memgrow.nn.kernels.cuda import nvrtc
from memgrow.nn.kernels.naive import CELLS, Direction, Memory, State, Weights, attend

BACKENDS = ("auto", "naive", "stepped", "cuda")

_broken: str | None = None  # why the GPU's kernels could not be compiled or started, once that has been tried


def run(
    cell: str, data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction], backend: str = "auto"
) -> tuple[Tensor, list[State]]:
    """One layer: the states of all directions side by side (rows, D * H), and the last states of each."""
    global _broken
    kind = data.device.type
    if torch.is_autocast_enabled(kind):  # the fast ways compute in the weights' own numbers, whatever the inputs are
        data, directions = _in_kind_of_weights(data, directions)
        with torch.autocast(kind, enabled=False):
            return run(cell, data, batch_sizes, directions, backend)
    way, _ = choose(cell, data, directions, backend)
    if way == "cuda":
        try:
            return cuda.recur(cell, data, batch_sizes, directions)
        except nvrtc.UnavailableError as error:
            if backend == "cuda":
                raise
            _broken = str(error)
            way = "stepped"
    if way == "stepped" and abreast.suits(data, batch_sizes, directions):
        return abreast.recur(cell, data, batch_sizes, directions)
    recur = naive.recur if way == "naive" else cpu.recur
    outputs, last = zip(
        *(recur(cell, data, batch_sizes, d.state, d.weights, d.memory, d.reverse) for d in directions), strict=True
    )
    return torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0], list(last)


def choose(cell: str, data: Tensor, directions: Sequence[Direction], backend: str = "auto") -> tuple[str, str]:
    """The way that a layer takes, and why."""
    if backend not in BACKENDS:
        raise SettingsError(f"there is no backend {backend!r}; there are {', '.join(BACKENDS)}")
    if backend != "auto":
        obstacle = None
        if backend == "stepped" and cell not in cpu.CELLS:
            obstacle = f"it knows {' and '.join(cpu.CELLS)}, not {cell}"
        elif backend == "cuda":
            obstacle = cuda.supported(cell, data, directions) if data.is_cuda else "the input is not on a GPU"
        if obstacle is not None:
            raise SettingsError(f"the backend {backend} cannot run this layer: {obstacle}")
        return backend, "asked for"
    if data.is_cuda:
        obstacle = _broken or cuda.supported(cell, data, directions)
        if obstacle is None:
            return "cuda", "LSTM and GRU on this GPU have kernels of their own"
        return ("stepped" if cell in cpu.CELLS else "naive"), obstacle
    if cell in cpu.CELLS:
        return "stepped", "LSTM and GRU have a hand-written backward pass with few, large operations"
    return "naive", f"{cell} has no fast way"


def _in_kind_of_weights(data: Tensor, directions: Sequence[Direction]) -> tuple[Tensor, list[Direction]]:
    kind = directions[0].weights.hh.dtype
    states = [tuple(part.to(kind) for part in d.state) for d in directions]
    return data.to(kind), [d._replace(state=state) for d, state in zip(directions, states, strict=True)]


__all__ = ["BACKENDS", "CELLS", "Direction", "Memory", "State", "Weights", "attend", "choose", "run"]
