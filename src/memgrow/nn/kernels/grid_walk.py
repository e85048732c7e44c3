"""The walk by all blocks of the GPU together (grid.cu): float32 by split products, or TF32."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from memgrow.nn.kernels import nvrtc
from memgrow.nn.kernels.layer import Each, Layer, Reading, Trace, Walked, WalkedBack, processors
from memgrow.nn.kernels.sharing import Plan, Shape
from memgrow.nn.kernels.structures import GridBackward, GridForward, GridPacking
from memgrow.nn.kernels.structures import GridWalk as Argument

SOURCE = "grid.cu"


class GridWalk:
    contents, content, d_content = False, None, None

    def __init__(self, layer: Layer, shape: Shape, exact: bool) -> None:
        self.layer, self.shape = layer, shape
        self.hidden, self.slots = shape.hidden, shape.slots
        self.plans = {way: shape.plan(layer.cell, exact, forward=way == "forward") for way in ("forward", "backward")}

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

    def forward(self, x: Tensor, bias: Tensor | None, trace: Trace) -> Walked:
        layer, s, d, new = self.layer, self.shape, self.layer.directions, self.layer.new
        walked, out = Walked.of(layer), new(s.batch + layer.total, d, s.hidden)
        argument = GridForward(
            walk=self._walk("forward"),
            h0=layer.h0,
            c0=layer.c0,
            x=x,
            key_pack=self.key_pack,
            gate_pack=self.gate_pack,
            bias=bias,
            out=out,
            **walked._asdict(),
            **trace._asdict(),
            scores=new(d, s.batch, s.slots),
            stats=new(d, s.batch, s.blocks, 2),
        )
        self._launch("forward", argument)
        del self.gate_pack
        return walked

    def backward(
        self, trace: Trace, mean_key: Tensor, d_output: Tensor, d_hn: Sequence[Tensor], d_cn: Each
    ) -> WalkedBack:
        layer, s, new = self.layer, self.shape, self.layer.new
        walked = WalkedBack.of(layer, trace)
        argument = GridBackward(
            walk=self._walk("backward"),
            d_hn=d_hn,
            d_cn=d_cn,
            c0=layer.c0,
            d_out=d_output,
            **walked._asdict(),
            **trace._asdict(),
            mean_key=mean_key,
            slope_pack=self.slope_pack,
            key_pack=self.back_pack,
            weighed=torch.empty_like(trace.attention),
            partial=new(layer.directions, s.batch, s.blocks),
        )
        self._launch("backward", argument)
        return walked

    def _walk(self, way: str) -> Argument:
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
            weights_in_shared=int(self.plans[way].weights_in_shared),
            sizes=layer.sizes,
            offsets=layer.offsets,
            barrier=self.barrier,
        )

    def _launch(self, way: str, argument: ctypes.Structure) -> None:
        plan: Plan = self.plans[way]
        blocks, threads = self.shape.directions * self.shape.groups * self.shape.blocks, 32 * plan.defines["WARPS"]
        device = self.layer.device
        nvrtc.launch(SOURCE, way, plan.defines, argument, blocks, threads, plan.shared, device, together=True)
