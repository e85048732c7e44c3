"""A piece of work for each length of a batch, on a GPU recorded once and replayed: no launch costs, no waiting."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from memgrow.nn.kernels.cuda.recordings import captured


class Graphs:
    """Calls `work(steps)`. On a GPU the first call of a length runs as it is, the second is recorded for all others.

    So the work must read its inputs from, and leave its results in, tensors that stay where they are.
    """

    def __init__(self, work: Callable[[int], None], device: torch.device) -> None:
        self._work, self._on_gpu = work, device.type == "cuda"
        self._seen: set[int] = set()
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        # One pool and one stream for all: memory that one graph needs only while it runs serves the others as well.
        self._pool = torch.cuda.graph_pool_handle() if self._on_gpu else None
        self._stream: Any = torch.cuda.Stream() if self._on_gpu else None  # type: ignore[no-untyped-call]

    def __call__(self, steps: int) -> None:
        if not self._on_gpu or steps not in self._seen:
            self._seen.add(steps)
            self._work(steps)
            return
        if steps not in self._graphs:
            self._graphs[steps] = self._recorded(steps)
        self._graphs[steps].replay()

    def _recorded(self, steps: int) -> torch.cuda.CUDAGraph:
        graph, _ = captured(partial(self._work, steps), self._stream, self._pool)
        return graph

    def close(self) -> None:
        """Give the graphs back; what they were recorded from is free to go as well."""
        self._work = lambda steps: None
        if self._graphs:
            self._graphs.clear()
            torch.cuda.empty_cache()  # other processes may want what no graph of this one can use any more


def separated(gradients: Sequence[Tensor]) -> list[Tensor]:
    """The same, each laid out like its parameter, as the fused optimiser expects, and none sharing another's memory."""
    taken: set[int] = set()
    new = []
    for gradient in gradients:
        whole = gradient.contiguous()
        new.append(whole.clone() if whole.data_ptr() in taken else whole)
        taken.add(whole.data_ptr())
    return new
