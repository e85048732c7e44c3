"""Which walk a layer takes on a GPU: that of clusters, where TF32 will do and it is not too large, or the grid's."""

import functools

import torch

from memgrow.nn.kernels.cuda import cluster_plan as clusters
from memgrow.nn.kernels.cuda import nvrtc
from memgrow.nn.kernels.cuda.cluster import ClusterKernel
from memgrow.nn.kernels.cuda.grid import GridKernel, Shape
from memgrow.nn.kernels.cuda.layer import Kernel, Layer, processors

PROBE = "layout.cu"  # has a kernel that does nothing


def kernel_for(layer: Layer, slot_size: int, exact: bool) -> Kernel:
    sizes = (layer.directions, layer.batch, layer.hidden, layer.slots)
    shared = None if exact else plan_for(clusters.Sizes(layer.cell, *sizes, slot_size), layer.device)
    if shared is not None:
        return ClusterKernel(layer, shared)
    shape = Shape.of(*sizes, processors(layer.device))
    assert shape is not None
    return GridKernel(layer, shape, exact)


def exact(dtype: torch.dtype) -> bool:
    """Whether products are asked for that are as exact as float32."""
    return dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32


@functools.lru_cache(maxsize=4096)
def plan_for(sizes: clusters.Sizes, device: torch.device) -> clusters.Clusters | None:
    """How clusters share out a layer; None if it is too large for them."""
    return clusters.best(sizes, _room(device))


@functools.cache
def _room(device: torch.device) -> dict[int, int]:
    """How many clusters of each size find room at the same time, each block with all the memory that it may have."""

    def most(size: int) -> int:
        limits = (clusters.THREADS, nvrtc.SHARED_LIMIT)
        return nvrtc.most_clusters(PROBE, "probe", {"LSTM": 1}, size, *limits, device)

    try:
        return {size: most(size) for size, _ in clusters.SHARINGS}
    except nvrtc.UnavailableError:  # then there is no room for any, and a layer goes another way
        return {}
