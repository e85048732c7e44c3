"""The recurrence by all blocks of the GPU together (grid.cu): float32 by split products, or TF32."""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from memgrow.nn.kernels.cuda import nvrtc
from memgrow.nn.kernels.cuda.arguments import GridBackward, GridForward, GridPacking
from memgrow.nn.kernels.cuda.arguments import GridLayer as Argument
from memgrow.nn.kernels.cuda.layer import LSTM, BackwardResult, Each, ForwardResult, Layer, Reading, Trace, processors
from memgrow.nn.kernels.cuda.nvrtc import SHARED_LIMIT

CHUNK = 32  # rows that a block works on together; as in the source
WARPS = (12, 8)  # of a block: more hide more of the time that memory takes, fewer leave more room for weights
MAX_TILES = 8  # of gates in one block: more would not fit its registers


class Shape(NamedTuple):
    """How a layer is divided among blocks."""

    directions: int
    batch: int
    hidden: int  # padded
    slots: int  # padded
    groups: int  # of one direction
    blocks: int  # of one group
    chunks: int  # of one group
    tiles_u: int  # gates of one block, in eights
    tiles_s: int  # slots of one block, in eights

    @property
    def tiles_h(self) -> int:
        """Units of one block, in eights."""
        return -(-2 * self.tiles_u // 8)

    @classmethod
    def of(cls, directions: int, batch: int, hidden: int, slots: int, processors: int) -> "Shape | None":
        """The shape with most blocks; None where hidden units are too many for the number of processors."""
        hidden, slots, chunks = _padded(hidden), _padded(slots), -(-batch // CHUNK)
        for groups in (2, 1):
            if groups > chunks:
                continue
            blocks = min(processors // (directions * groups), max(hidden // 2, slots // 8))
            if blocks and (tiles_u := -(-hidden // (2 * blocks))) <= MAX_TILES:
                tiles_s = -(-slots // (8 * blocks))
                return cls(directions, batch, hidden, slots, groups, blocks, -(-chunks // groups), tiles_u, tiles_s)
        return None

    def plan(self, cell: str, exact: bool, forward: bool) -> "Plan":
        """How the kernel of one pass is compiled and started: with its weights on the chip if they fit."""
        tiles = self.tiles_h + self.tiles_s
        tiles_s, tiles_b = max(1, min(self.tiles_s, 4)), -(-tiles // -(-tiles // 6))
        widest = max(tiles_s, self.tiles_u) if forward else max(tiles_b, self.tiles_h)
        k_units, k_slots = self.hidden // 16, self.slots // 16
        weights = 128 * (
            k_units * self.tiles_s + (k_units + k_slots) * self.tiles_u
            if forward
            else 4 * k_units * tiles + k_slots * self.tiles_h
        )
        defines = {
            "LSTM": LSTM[cell],
            "EXACT": int(exact),
            "ONE": int(self.chunks == 1),
            "TILES_U": self.tiles_u,
            "TILES_S": tiles_s,
            "TILES_B": tiles_b,
        }
        room = CHUNK * (2 + 8 * self.tiles_s + 4 * self.chunks * self.tiles_u)
        for warps in WARPS:
            size = 4 * (room + weights + warps * CHUNK * 8 * widest)
            if size <= SHARED_LIMIT:
                return Plan({**defines, "WARPS": warps}, size, True)
        return Plan({**defines, "WARPS": WARPS[0]}, 4 * (room + WARPS[0] * CHUNK * 8 * widest), False)


class Plan(NamedTuple):
    """How the kernel of one pass is compiled and started."""

    defines: dict[str, int]
    shared: int  # bytes
    weights_in_shared: bool


def _padded(size: int) -> int:
    return -(-size // 16) * 16


SOURCE = "grid.cu"


class GridKernel:
    """The kernels of one shape, for one layer (see `Kernel`)."""

    contents, content, d_content = False, None, None

    def __init__(self, layer: Layer, shape: Shape, exact: bool) -> None:
        self.layer, self.shape = layer, shape
        self.hidden, self.slots = shape.hidden, shape.slots
        self.plans = {name: shape.plan(layer.cell, exact, name == "forward") for name in ("forward", "backward")}

    def pack(self, reading: Reading, with_gradient: bool) -> None:
        layer, s, d, new = self.layer, self.shape, self.layer.directions, self.layer.new
        self.gate_pack = new(d, s.blocks, (s.hidden + s.slots) // 16, s.tiles_u, 128)
        self.key_pack = new(d, s.blocks, s.hidden // 16, s.tiles_s, 128)
        self.slope_pack = self.back_pack = None
        if with_gradient:
            self.slope_pack = new(d, s.blocks, s.hidden // 4, s.tiles_h + s.tiles_s, 128)
            self.back_pack = new(d, s.blocks, s.slots // 16, s.tiles_h, 128)
        argument = GridPacking(
            directions=d,
            real_hidden=layer.hidden,
            hidden=s.hidden,
            real_slots=layer.slots,
            slots=s.slots,
            blocks=s.blocks,
            tiles_s=s.tiles_s,
            backward=int(with_gradient),
            hh=layer.hh,
            keys=layer.keys,
            gate_values=reading.gate_values,
            key_pack=self.key_pack,
            gate_pack=self.gate_pack,
            slope_pack=self.slope_pack,
            back_pack=self.back_pack,
        )
        count, defines = 4 * processors(layer.device), self.plans["forward"].defines
        nvrtc.launch(SOURCE, "pack", defines, argument, count, 256, 0, layer.device, together=False)

    def forward(self, x: Tensor, bias: Tensor | None, trace: Trace) -> ForwardResult:
        layer, s, d, new = self.layer, self.shape, self.layer.directions, self.layer.new
        result, out = ForwardResult.of(layer), new(s.batch + layer.total, d, s.hidden)
        argument = GridForward(
            layer=self._argument("forward"),
            h0=layer.h0,
            c0=layer.c0,
            x=x,
            key_pack=self.key_pack,
            gate_pack=self.gate_pack,
            bias=bias,
            out=out,
            **result._asdict(),
            **trace._asdict(),
            scores=new(d, s.batch, s.slots),
            stats=new(d, s.batch, s.blocks, 2),
        )
        self._launch("forward", argument)
        del self.gate_pack
        return result

    def backward(
        self, trace: Trace, mean_key: Tensor, d_output: Tensor, d_hn: Sequence[Tensor], d_cn: Each
    ) -> BackwardResult:
        layer, s, new = self.layer, self.shape, self.layer.new
        result = BackwardResult.of(layer, trace)
        argument = GridBackward(
            layer=self._argument("backward"),
            d_hn=d_hn,
            d_cn=d_cn,
            c0=layer.c0,
            d_out=d_output,
            **result._asdict(),
            **trace._asdict(),
            mean_key=mean_key,
            slope_pack=self.slope_pack,
            key_pack=self.back_pack,
            weighed=torch.empty_like(trace.attention),
            partial=new(layer.directions, s.batch, s.blocks),
        )
        self._launch("backward", argument)
        return result

    def _argument(self, name: str) -> Argument:
        layer, s = self.layer, self.shape
        self.barrier = torch.zeros(s.directions * s.groups, dtype=torch.int32, device=layer.device)
        return Argument(
            directions=s.directions,
            groups=s.groups,
            blocks=s.blocks,
            chunks=s.chunks,
            batch=s.batch,
            steps=len(layer.batch_sizes),
            reversed=layer.backwards,
            real_hidden=layer.hidden,
            hidden=s.hidden,
            slots=s.slots,
            real_slots=layer.slots,
            tiles_s=s.tiles_s,
            weights_in_shared=int(self.plans[name].weights_in_shared),
            sizes=layer.sizes,
            offsets=layer.offsets,
            barrier=self.barrier,
        )

    def _launch(self, name: str, argument: ctypes.Structure) -> None:
        plan = self.plans[name]
        blocks, threads = self.shape.directions * self.shape.groups * self.shape.blocks, 32 * plan.defines["WARPS"]
        device = self.layer.device
        nvrtc.launch(SOURCE, name, plan.defines, argument, blocks, threads, plan.shared, device, together=True)
