"""A layer as the GPU's kernels see it, and what their passes over its steps give."""

import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

LSTM = {"lstm": 1, "gru": 0}
"""The cells that the kernels know, each with the value of LSTM in their sources: any other is a KeyError."""

Each = Sequence[Tensor | None]
"""A tensor for each direction, or None."""


class Layer:
    """All directions of a layer: inner weights, keys, first states, and the rows of each step."""

    def __init__(
        self,
        cell: str,
        batch_sizes: tuple[int, ...],
        reverse: tuple[bool, ...],
        device: torch.device,
        h0: Each,
        c0: Each,
        hh: Each,
        keys: Each,
        steps: Tensor | None = None,
    ) -> None:
        """`steps`: what `steps_of` gives for these batch sizes, where the caller has it at hand."""
        assert hh[0] is not None
        self.cell, self.batch_sizes, self.total, self.device = cell, batch_sizes, sum(batch_sizes), device
        self.h0, self.c0, self.hh, self.keys = h0, c0, hh, keys
        self.directions, self.batch, self.hidden = len(reverse), batch_sizes[0], hh[0].shape[1]
        self.slots = 0 if keys[0] is None else len(keys[0])
        self.backwards = sum(1 << d for d, backwards in enumerate(reverse) if backwards)  # a bit each
        steps = steps_of(batch_sizes, device) if steps is None else steps
        self.sizes, self.offsets = steps[: len(batch_sizes)], steps[len(batch_sizes) :]

    def new(self, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(sizes, dtype=dtype, device=self.device)

    def states(self) -> tuple[list[Tensor], list[Tensor | None]]:
        """Room for a hidden state, and for a cell where there is one, of each direction."""
        hidden = [self.new(self.batch, self.hidden) for _ in range(self.directions)]
        cells = [self.new(self.batch, self.hidden) if LSTM[self.cell] else None for _ in range(self.directions)]
        return hidden, cells


# The fields of the next three are named as the kernels' arguments are, so that they are handed on as they are.


class Trace(NamedTuple):
    """What the forward pass saves for the backward pass. Sizes are the kernel's padded ones."""

    before: Tensor  # (T, D, H)
    cell: Tensor  # (T, D, H)
    gates: Tensor  # (T, D, 4 H)
    attention: Tensor  # (T, D, N)

    @classmethod
    def of(cls, layer: Layer, hidden: int, slots: int) -> "Trace":
        total, d = layer.total, layer.directions
        sizes = (hidden, hidden, 4 * hidden, slots)
        return cls(*(layer.new(total, d, size) for size in sizes))


class ForwardResult(NamedTuple):
    """Outputs and last states of the forward pass."""

    output: Tensor  # (T, D * real H)
    hn: list[Tensor]
    cn: list[Tensor | None]

    @classmethod
    def of(cls, layer: Layer) -> "ForwardResult":
        return cls(layer.new(layer.total, layer.directions * layer.hidden), *layer.states())


class BackwardResult(NamedTuple):
    """Gradients that the backward pass gives."""

    d_gates: Tensor  # (T, D, 4 H)
    d_logits: Tensor  # (T, D, N)
    d_h0: list[Tensor]
    d_c0: list[Tensor | None]

    @classmethod
    def of(cls, layer: Layer, trace: Trace) -> "BackwardResult":
        return cls(torch.empty_like(trace.gates), torch.empty_like(trace.attention), *layer.states())


class Reading(NamedTuple):
    """How slots reach the gates: by what each adds to them, or by the values and the weights that read contents."""

    gate_values: Tensor | None = None  # (D, real N, 4 H)
    values: Each = (None, None)  # (real N, M)
    w_c: Tensor | None = None  # (D, 4 H, M)


class Kernel(Protocol):
    """What runs all steps of a layer, forward and backward."""

    hidden: int  # padded
    slots: int  # padded
    contents: bool  # whether it reads contents; otherwise what slots add to the gates

    @property
    def content(self) -> Tensor | None:
        """The content of each step (T, D, at least M), where contents are read."""

    @property
    def d_content(self) -> Tensor | None:
        """The gradient of `content`."""

    def pack(self, reading: Reading, with_gradient: bool) -> None:
        """Lay the weights out as the kernels read them."""

    def forward(self, x: Tensor, bias: Tensor | None, trace: Trace) -> ForwardResult:
        """Run the steps; `x` (T, D * 4 H) is what inputs add to the gates, `bias` (D, N) that of the slots."""

    def backward(
        self, trace: Trace, mean_key: Tensor, d_output: Tensor, d_hn: Sequence[Tensor], d_cn: Each
    ) -> BackwardResult:
        """Run the steps in reverse; `mean_key` (D, T, real H) is the mean of the keys by attention."""


@functools.lru_cache(maxsize=512)
def steps_of(batch_sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Rows of each step, then where each step begins and the last one ends, on the device."""
    offsets = list(accumulate((0, *batch_sizes)))
    steps = torch.tensor([*batch_sizes, *offsets], dtype=torch.int32)
    return steps.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else steps


def exact(dtype: torch.dtype) -> bool:
    """Whether products must be as exact as float32: then half precision and TF32 will not do."""
    return dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32


@functools.cache
def processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
