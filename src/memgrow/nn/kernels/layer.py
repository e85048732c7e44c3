"""A layer's tensors as the GPU's kernels take them, and what a walk through its steps leaves behind."""

import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

NAMES = 9  # tensors of a direction: h, c, ih, hh, two biases, keys, values, slot bias

Each = Sequence[Tensor | None]
"""A tensor for each direction, or None."""


class Layer:
    """All directions of a layer, and the rows that go through it."""

    def __init__(
        self, cell: str, batch_sizes: tuple[int, ...], reverse: tuple[bool, ...], tensors: Sequence[Tensor | None]
    ) -> None:
        plain = [None if t is None else t.detach().float().contiguous() for t in tensors]
        assert tensors[0] is not None
        assert plain[0] is not None
        self.cell, self.reverse, self.batch_sizes, self.total = cell, reverse, batch_sizes, sum(batch_sizes)
        self.dtype, self.device, self.x = tensors[0].dtype, tensors[0].device, plain[0]
        parts = [plain[1 + n :: NAMES] for n in range(NAMES)]
        self.h0, self.c0, self.ih, self.hh, self.bias_ih, self.bias_hh, self.keys, self.values, self.slot_bias = parts
        assert self.hh[0] is not None
        assert self.ih[0] is not None
        self.directions, self.batch = len(reverse), batch_sizes[0]
        self.hidden, self.inputs = self.hh[0].shape[1], self.x.shape[1]
        self.slots = 0 if self.keys[0] is None else len(self.keys[0])
        self.slot_size = self.ih[0].shape[1] - self.inputs
        self.backwards = sum(1 << d for d, backwards in enumerate(reverse) if backwards)  # a bit each
        steps = _steps(batch_sizes, self.device)
        self.sizes, self.offsets = steps[: len(batch_sizes)], steps[len(batch_sizes) :]

    def new(self, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(sizes, dtype=dtype, device=self.device)

    def states(self) -> tuple[list[Tensor], list[Tensor | None]]:
        """Room for a hidden state, and for a cell where there is one, of each direction."""
        hidden = [self.new(self.batch, self.hidden) for _ in range(self.directions)]
        cells = [self.new(self.batch, self.hidden) if self.cell == "lstm" else None for _ in range(self.directions)]
        return hidden, cells


class Trace(NamedTuple):
    """What a walk leaves behind for the way back. Sizes are the walk's padded ones."""

    before: Tensor  # (T, D, H)
    cells: Tensor  # (T, D, H)
    gates: Tensor  # (T, D, 4 H)
    attention: Tensor  # (T, D, N)

    @classmethod
    def of(cls, layer: Layer, hidden: int, slots: int) -> "Trace":
        total, d = layer.total, layer.directions
        sizes = (hidden, hidden, 4 * hidden, slots)
        return cls(*(layer.new(total, d, size) for size in sizes))


class Walked(NamedTuple):
    """Where a walk ends."""

    output: Tensor  # (T, D * real H)
    hn: list[Tensor]
    cn: list[Tensor | None]


class WalkedBack(NamedTuple):
    d_gates: Tensor  # (T, D, 4 H)
    d_logits: Tensor  # (T, D, N)
    d_h0: list[Tensor]
    d_c0: list[Tensor | None]


class Walk(Protocol):
    """A way through the steps of a layer and back."""

    hidden: int  # padded
    slots: int  # padded

    def pack(self, gate_values: Tensor | None, with_gradient: bool) -> None:
        """Lay the weights out; `gate_values` (D, real N, 4 H) is what each slot adds to the gates."""

    def forward(self, x: Tensor, bias: Tensor | None, trace: Trace) -> Walked:
        """`x` (T, D * 4 H) is what inputs add to the gates, `bias` (D, N) that of the slots."""

    def backward(
        self, trace: Trace, mean_key: Tensor, d_output: Tensor, d_hn: Sequence[Tensor], d_cn: Each
    ) -> WalkedBack:
        """`mean_key` (D, T, real H) is the mean of the keys by attention."""


@functools.lru_cache(maxsize=512)
def _steps(batch_sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Rows of each step, then where each step begins and the last one ends, on the device."""
    offsets = list(accumulate((0, *batch_sizes)))
    steps = torch.tensor([*batch_sizes, *offsets], dtype=torch.int32)
    return steps.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else steps


@functools.cache
def processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
