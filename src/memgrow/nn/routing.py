"""Which domains' slots a text reads: the few whose own texts are nearest to it, so that a hundred domains cost as one.

This is an inverted file whose cells are the segments of slots. What is scored for a text is one centroid for each
segment, and then the slots of the chosen ones alone.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from memgrow.nn.growth import Growth
from memgrow.nn.state_dicts import NoTraceWhileEmpty

FLOOR = 1e-3  # of the mean variance, added to all: what hardly varies among a few texts must not decide alone

_routes: ContextVar[Tensor | None] = ContextVar("routes", default=None)
_routed = 0  # how many are within `routed`, in whatever thread: a compiled graph can ask this, and not the variable
_counting = threading.Lock()


class DomainRouter(NoTraceWhileEmpty):
    """Knows of each segment the mean and the variance of its texts' vectors, (segments, width), which grow.

    A text is nearest to the segment under which it is the most probable, if the vectors of all segments' texts are
    normally distributed with one diagonal covariance: the mean of the variances.
    """

    means: Tensor
    variances: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.empty(0, width))
        self.register_buffer("variances", torch.empty(0, width))

    def plan(self, growth: Growth, segments: int = 1) -> None:
        """Make further segments, which are still to be told of their texts, part of a larger growth."""
        for tensor in (self.means, self.variances):
            growth.enlarge(tensor, 0, [(len(tensor), segments)], torch.zeros)

    @torch.no_grad()
    def fit(self, number: int, vectors: Tensor) -> None:
        """Take note of the vectors (texts, width) of a segment's texts."""
        self.means[number] = vectors.mean(0)
        self.variances[number] = vectors.var(0, correction=0)

    @torch.no_grad()
    def choose(self, vectors: Tensor, among: Sequence[int], count: int) -> Tensor:
        """For texts (R, width) the numbers of the `count` nearest segments `among` some, (R, count), nearest first."""
        every = list(among) == list(range(len(self.means)))
        numbers = None if every else torch.tensor(among, device=self.means.device)
        scale, centres = self.scaled(numbers)
        near = torch.addmm(centres.square().sum(1), vectors.to(scale) * scale, centres.t(), beta=-0.5)
        chosen = near.topk(count, dim=1).indices  # the nearest have the largest product, less half their own square
        return chosen if numbers is None else numbers[chosen]

    def scaled(self, numbers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The scale (width) that gives all directions the same variance, and the means (S, width) of segments by it."""
        means, variances = (part if numbers is None else part[numbers] for part in (self.means, self.variances))
        variance = variances.mean(0)
        scale = (variance + FLOOR * variance.mean() + 1e-12).rsqrt()
        return scale, means * scale

    def rows(self, number: int) -> dict[str, Tensor]:
        """What is known of one segment: views, which may be written to."""
        return {"means": self.means[number], "variances": self.variances[number]}


def choose_naively(router: DomainRouter, vector: Tensor, among: Sequence[int], count: int) -> list[int]:
    """The same for one text (width): from distances, number by number."""
    variance = torch.stack([router.variances[number] for number in among]).double().mean(0)
    variance = variance + FLOOR * variance.mean() + 1e-12
    distances = {
        number: float(((vector.detach().double() - router.means[number].double()).square() / variance).sum())
        for number in among
    }
    return sorted(among, key=lambda number: distances[number])[:count]


@contextmanager
def routed(routes: Tensor | None) -> Iterator[None]:
    """Within, and in this thread, each row of a batch reads the segments of its `routes` (R, count); None: all."""
    token = _routes.set(routes)
    _count(1)
    try:
        yield
    finally:
        _count(-1)
        _routes.reset(token)


def _count(more: int) -> None:
    global _routed
    with _counting:
        _routed += more


def current_routes() -> Tensor | None:
    return _routes.get() if _routed else None


def grouped(routes: Tensor) -> tuple[Tensor, list[tuple[int, int]]]:
    """The rows (R) in the order of their routes (R), and each route with the number of its rows."""
    order = routes.argsort(stable=True)
    numbers, counts = torch.unique_consecutive(routes[order], return_counts=True)
    return order, list(zip(numbers.tolist(), counts.tolist(), strict=True))
