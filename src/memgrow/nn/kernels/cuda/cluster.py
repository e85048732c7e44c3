"""The recurrence by clusters of blocks (cluster.cuh): products of half precision, which has the 10 bits of TF32."""

import ctypes
import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from memgrow.nn.kernels.cuda import cluster_plan, nvrtc
from memgrow.nn.kernels.cuda.arguments import ClusterBackward, ClusterForward, ClusterPacking, Gradients
from memgrow.nn.kernels.cuda.arguments import ClusterLayer as Argument
from memgrow.nn.kernels.cuda.cluster_plan import THREADS, WARPS, Clusters, Kept, Sizes, best
from memgrow.nn.kernels.cuda.layer import BackwardResult, Each, ForwardResult, Layer, Reading, Trace, processors

ARRIVAL_WORDS = 16  # of a team's counters of arrivals; as in the source
PASSES = {"forward": "cluster_forward.cu", "backward": "cluster_backward.cu"}  # kernels that take all steps
BEFORE = {"pack": "cluster_packing.cu", "largest": "cluster_packing.cu"}  # kernels that run before one of these
PROBE = "layout.cu"  # has a kernel that does nothing
FITS = ("fit_first", "fit_second", "fit_third", "fit_fourth")
PACKS = {  # of the forward pass or, False, of the backward pass
    True: ("key_pack", "gate_pack", "read_pack", "value_pack"),
    False: ("slope_pack", "back_pack", "back_value_pack", "back_read_pack"),
}


@functools.lru_cache(maxsize=4096)  # a training asks for the same ones in every step
def plan_for(sizes: Sizes, device: torch.device) -> Clusters | None:
    """The plan by which clusters run a layer; None if it is too large for them."""
    return best(sizes, _room(device))


@functools.cache
def _room(device: torch.device) -> dict[int, int]:
    """How many clusters of each size run at the same time, if each block takes all the shared memory it may have."""

    def most(size: int) -> int:
        return nvrtc.most_clusters(PROBE, "probe", {"LSTM": 1}, size, THREADS, nvrtc.SHARED_LIMIT, device)

    try:
        return {size: most(size) for size, _ in cluster_plan.SHARINGS}
    except nvrtc.UnavailableError:  # then there is no room for any, and a layer takes another kernel
        return {}


@functools.lru_cache(maxsize=4096)
def prepare(clusters: Clusters, with_gradient: bool, device: torch.device) -> None:
    """Begin to compile the kernels of a plan."""
    for name in ("pack", "forward", *(("backward",) if with_gradient else ())):
        nvrtc.prepare(*_program(name, clusters), device)


@functools.lru_cache(maxsize=4096)
def _program(name: str, clusters: Clusters) -> tuple[str, dict[str, int]]:
    """The source of a kernel, and how it is compiled."""
    return (PASSES[name], clusters.defines()) if name in PASSES else (BEFORE[name], clusters.blocks())


class ClusterKernel:
    """The kernels of one plan, for one layer (see `Kernel`)."""

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
        layer, result = self.layer, ForwardResult.of(self.layer)
        self.content = self._contents()
        argument = ClusterForward(
            layer=self._argument(forward=True),
            h0=layer.h0,
            c0=layer.c0,
            x=x,
            bias=bias,
            content=self.content,
            mailbox=self._mailbox(forward=True),
            **self.packs.pop(True),
            **result._asdict(),
            **trace._asdict(),
        )
        self._launch("forward", argument, self.blocks, self._kept(forward=True).shared)
        return result

    def backward(
        self, trace: Trace, mean_key: Tensor, d_output: Tensor, d_hn: Sequence[Tensor], d_cn: Each
    ) -> BackwardResult:
        layer = self.layer
        result = BackwardResult.of(layer, trace)
        self.d_content = self._contents()
        argument = ClusterBackward(
            layer=self._argument(forward=False),
            d_hn=d_hn,
            d_cn=d_cn,
            c0=layer.c0,
            d_out=d_output,
            **result._asdict(),
            **trace._asdict(),
            mean_key=mean_key,
            d_content=self.d_content,
            mailbox=self._mailbox(forward=False),
            **self.packs[False],
            largest=self._largest(d_output, d_hn, d_cn),
        )
        self._launch("backward", argument, self.blocks, self._kept(forward=False).shared)
        return result

    def _contents(self) -> Tensor | None:
        return self.layer.new(self.layer.total, self.layer.directions, self.clusters.content) if self.contents else None

    def _mailbox(self, forward: bool) -> Tensor:
        return self.layer.new(self.blocks, self.clusters.mailbox(forward), dtype=torch.uint8)

    def _arrivals(self) -> Tensor | None:
        teams = self.blocks // self.clusters.members if self.clusters.team > 1 else 0
        return torch.zeros(teams, ARRIVAL_WORDS, dtype=torch.int32, device=self.layer.device) if teams else None

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

    def _argument(self, forward: bool) -> Argument:
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
            mailbox_bytes=c.mailbox(forward),
            depth=kept.depth,
            sizes=layer.sizes,
            offsets=layer.offsets,
            arrivals=self._arrivals(),
        )

    def _kept(self, forward: bool) -> Kept:
        kept = self.clusters.kept(forward)
        assert kept is not None
        return kept

    def _launch(self, name: str, argument: ctypes.Structure, blocks: int, shared: int) -> None:
        source, defines = _program(name, self.clusters)
        together = self.clusters.team > 1 and name in PASSES  # they wait for each other
        nvrtc.launch(source, name, defines, argument, blocks, THREADS, shared, self.layer.device, together)
