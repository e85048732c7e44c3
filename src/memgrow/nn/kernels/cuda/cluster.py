"""The walk by clusters of blocks (cluster.cuh): products of half precision, which has the 10 bits of TF32."""

import ctypes
import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from memgrow.nn.kernels.cuda import nvrtc
from memgrow.nn.kernels.cuda.arguments import ClusterBackward, ClusterForward, ClusterPacking, Gradients
from memgrow.nn.kernels.cuda.arguments import ClusterLayer as Argument
from memgrow.nn.kernels.cuda.cluster_plan import THREADS, WARPS, Clusters, Kept
from memgrow.nn.kernels.cuda.layer import BackwardResult, Each, ForwardResult, Layer, Reading, Trace, processors

TELLING = 16  # words in which a team counts what its blocks have sent
WALKS = {"forward": "cluster_forward.cu", "backward": "cluster_backward.cu"}
AROUND = {"pack": "cluster_packing.cu", "largest": "cluster_packing.cu"}
FITS = ("fit_first", "fit_second", "fit_third", "fit_fourth")
PACKS = {  # on the way forward or back
    True: ("key_pack", "gate_pack", "read_pack", "value_pack"),
    False: ("slope_pack", "back_pack", "back_value_pack", "back_read_pack"),
}


@functools.lru_cache(maxsize=4096)  # a training asks for the same ones in every step
def prepare(clusters: Clusters, with_gradient: bool, device: torch.device) -> None:
    """Begin to compile what a walk will need."""
    for name in ("pack", "forward", *(("backward",) if with_gradient else ())):
        nvrtc.prepare(*_program(name, clusters), device)


@functools.lru_cache(maxsize=4096)
def _program(name: str, clusters: Clusters) -> tuple[str, dict[str, int]]:
    """The source of a kernel, and how it is compiled."""
    return (WALKS[name], clusters.defines()) if name in WALKS else (AROUND[name], clusters.blocks())


class ClusterKernel:
    def __init__(self, layer: Layer, clusters: Clusters) -> None:
        self.layer, self.clusters = layer, clusters
        self.hidden, self.slots = clusters.hidden, clusters.slots
        self.blocks = clusters.size * clusters.needed
        self.contents = bool(clusters.dims)
        self.content: Tensor | None = None
        self.d_content: Tensor | None = None

    def pack(self, reading: Reading, with_gradient: bool) -> None:
        layer, c = self.layer, self.clusters
        prepare(c, with_gradient, layer.device)
        self.packs = {
            forward: {
                name: layer.new(layer.directions, c.members, blocks, tiles, 256, dtype=torch.float16)
                for name, (blocks, tiles) in zip(names, c.packs(forward), strict=True)
            }
            for forward, names in PACKS.items()
            if forward or with_gradient
        }
        argument = ClusterPacking(
            directions=layer.directions,
            real_hidden=layer.hidden,
            hidden=c.hidden,
            real_slots=layer.slots,
            slots=c.slots,
            own=c.own,
            slot_size=0 if reading.w_c is None else reading.w_c.shape[2],
            backward=int(with_gradient),
            hh=layer.hh,
            keys=layer.keys,
            **reading._asdict(),
            **self.packs[True],
            **self.packs.get(False, {}),
        )
        self._launch("pack", argument, 8 * processors(layer.device), 0)

    def forward(self, x: Tensor, bias: Tensor | None, trace: Trace) -> ForwardResult:
        layer, walked = self.layer, ForwardResult.of(self.layer)
        self.content = self._contents()
        argument = ClusterForward(
            walk=self._walk(forward=True),
            h0=layer.h0,
            c0=layer.c0,
            x=x,
            bias=bias,
            content=self.content,
            post=self._post(forward=True),
            **self.packs.pop(True),
            **walked._asdict(),
            **trace._asdict(),
        )
        self._launch("forward", argument, self.blocks, self._kept(forward=True).shared)
        return walked

    def backward(
        self, trace: Trace, mean_key: Tensor, d_output: Tensor, d_hn: Sequence[Tensor], d_cn: Each
    ) -> BackwardResult:
        layer = self.layer
        walked = BackwardResult.of(layer, trace)
        self.d_content = self._contents()
        argument = ClusterBackward(
            walk=self._walk(forward=False),
            d_hn=d_hn,
            d_cn=d_cn,
            c0=layer.c0,
            d_out=d_output,
            **walked._asdict(),
            **trace._asdict(),
            mean_key=mean_key,
            d_content=self.d_content,
            post=self._post(forward=False),
            **self.packs[False],
            largest=self._largest(d_output, d_hn, d_cn),
        )
        self._launch("backward", argument, self.blocks, self._kept(forward=False).shared)
        return walked

    def _contents(self) -> Tensor | None:
        return self.layer.new(self.layer.total, self.layer.directions, self.clusters.content) if self.contents else None

    def _post(self, forward: bool) -> Tensor:
        return self.layer.new(self.blocks, self.clusters.post(forward), dtype=torch.uint8)

    def _told(self) -> Tensor | None:
        teams = self.blocks // self.clusters.members if self.clusters.team > 1 else 0
        return torch.zeros(teams, TELLING, dtype=torch.int32, device=self.layer.device) if teams else None

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
        self._launch("largest", argument, 4 * processors(self.layer.device), 4 * WARPS)
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
            **dict(zip(FITS, kept.blocks, strict=True)),
            post=c.post(forward),
            depth=kept.depth,
            sizes=layer.sizes,
            offsets=layer.offsets,
            told=self._told(),
        )

    def _kept(self, forward: bool) -> Kept:
        kept = self.clusters.kept(forward)
        assert kept is not None
        return kept

    def _launch(self, name: str, argument: ctypes.Structure, blocks: int, shared: int) -> None:
        source, defines = _program(name, self.clusters)
        together = self.clusters.team > 1 and name in WALKS  # they wait for each other
        nvrtc.launch(source, name, defines, argument, blocks, THREADS, shared, self.layer.device, together)
