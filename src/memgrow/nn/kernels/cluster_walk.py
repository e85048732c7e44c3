"""The walk by clusters of blocks (cluster.cu): products of half precision, which has the 10 bits of TF32."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from memgrow.nn.kernels import nvrtc
from memgrow.nn.kernels.clusters import THREADS, Clusters, Kept
from memgrow.nn.kernels.layer import Each, Layer, Trace, Walked, WalkedBack, processors
from memgrow.nn.kernels.structures import ClusterBackward, ClusterForward, ClusterPacking, Gradients
from memgrow.nn.kernels.structures import ClusterWalk as Argument

SOURCE = "cluster.cu"


class ClusterWalk:
    def __init__(self, layer: Layer, clusters: Clusters) -> None:
        self.layer, self.clusters = layer, clusters
        self.hidden, self.slots = clusters.hidden, clusters.slots
        self.defines, self.blocks = clusters.defines(layer.cell), clusters.size * clusters.needed

    def pack(self, gate_values: Tensor | None, with_gradient: bool) -> None:
        layer, c = self.layer, self.clusters
        wanted = [*c.packs(forward=True), *(c.packs(forward=False) if with_gradient else ())]
        made: list[Tensor | None] = [
            layer.new(layer.directions, c.size, blocks, tiles, 256, dtype=torch.float16) for blocks, tiles in wanted
        ]
        self.key_pack, self.gate_pack, self.slot_pack, self.slope_pack, self.back_pack = (*made, None, None)[:5]
        argument = ClusterPacking(
            directions=layer.directions,
            real_hidden=layer.hidden,
            hidden=c.hidden,
            real_slots=layer.slots,
            slots=c.slots,
            own=c.own,
            backward=int(with_gradient),
            hh=layer.hh,
            keys=layer.keys,
            gate_values=gate_values,
            key_pack=self.key_pack,
            gate_pack=self.gate_pack,
            slot_pack=self.slot_pack,
            slope_pack=self.slope_pack,
            back_pack=self.back_pack,
        )
        self._launch("pack", argument, 8 * processors(layer.device), 0)

    def forward(self, x: Tensor, bias: Tensor | None, trace: Trace) -> Walked:
        layer, walked = self.layer, Walked.of(self.layer)
        argument = ClusterForward(
            walk=self._walk(forward=True),
            h0=layer.h0,
            c0=layer.c0,
            x=x,
            key_pack=self.key_pack,
            gate_pack=self.gate_pack,
            slot_pack=self.slot_pack,
            bias=bias,
            **walked._asdict(),
            **trace._asdict(),
        )
        self._launch("forward", argument, self.blocks, self._kept(forward=True).shared)
        del self.gate_pack, self.key_pack, self.slot_pack
        return walked

    def backward(
        self, trace: Trace, mean_key: Tensor, d_output: Tensor, d_hn: Sequence[Tensor], d_cn: Each
    ) -> WalkedBack:
        layer = self.layer
        walked = WalkedBack.of(layer, trace)
        argument = ClusterBackward(
            walk=self._walk(forward=False),
            d_hn=d_hn,
            d_cn=d_cn,
            c0=layer.c0,
            d_out=d_output,
            **walked._asdict(),
            **trace._asdict(),
            mean_key=mean_key,
            slope_pack=self.slope_pack,
            key_pack=self.back_pack,
            largest=self._largest(d_output, d_hn, d_cn),
        )
        self._launch("backward", argument, self.blocks, self._kept(forward=False).shared)
        return walked

    def _largest(self, d_output: Tensor, d_hn: Sequence[Tensor], d_cn: Each) -> Tensor:
        self.largest = torch.zeros(1, dtype=torch.int32, device=self.layer.device)
        argument = Gradients(
            directions=self.layer.directions,
            states=self.layer.batch * self.layer.hidden,
            outputs=d_output.numel(),
            d_out=d_output,
            largest=self.largest,
            d_hn=d_hn,
            d_cn=d_cn,
        )
        self._launch("largest", argument, 8 * processors(self.layer.device), 0)
        return self.largest

    def _walk(self, forward: bool) -> Argument:
        layer, c = self.layer, self.clusters
        kept = self._kept(forward)
        return Argument(
            directions=layer.directions,
            batch=layer.batch,
            steps=len(layer.batch_sizes),
            reversed=layer.backwards,
            real_hidden=layer.hidden,
            hidden=c.hidden,
            slots=c.slots,
            real_slots=layer.slots,
            own=c.own,
            fit_first=kept.blocks[0],
            fit_second=kept.blocks[1],
            fit_third=kept.blocks[2] if forward else 0,
            depth=kept.depth,
            sizes=layer.sizes,
            offsets=layer.offsets,
        )

    def _kept(self, forward: bool) -> Kept:
        kept = self.clusters.kept(forward)
        assert kept is not None
        return kept

    def _launch(self, name: str, argument: ctypes.Structure, blocks: int, shared: int) -> None:
        device = self.layer.device
        nvrtc.launch(SOURCE, name, self.defines, argument, blocks, THREADS, shared, device, together=False)
