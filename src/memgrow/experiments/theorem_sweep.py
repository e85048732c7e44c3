"""Theorem 1 with attention set by hand: how much of it the new slots may take before the bound gives way."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from memgrow.experiments.theorem import (
    ALWAYS_SAFE,
    Array,
    Estimate,
    Sizes,
    assumption_holds,
    breaking_ratio,
    changes,
    shift,
)
from memgrow.randomness import derive

SIZES = Sizes(hidden=20, slot_size=20, old=16, new=16, sigma=0.3)
RATIOS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 1.7, ALWAYS_SAFE, 3.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
SHAPES: dict[str, tuple[int, int]] = {  # how many old and new slots share the attention evenly: either way round alike
    "1 old, 1 new": (1, 1),
    "1 old, 16 new": (1, SIZES.new),
    "2 old, 2 new": (2, 2),
    "16 old, 16 new": (SIZES.old, SIZES.new),
}


@dataclass(frozen=True)
class Point:
    """Slots against states where new slots get `ratio` times the attention of old ones."""

    ratio: float
    share: float  # of all attention, for the new slots
    assumed: bool  # whether the theorem's assumption holds
    closed: float  # the change by slots over that by hidden units; the theorem says: at most 1
    measured: Estimate


@dataclass(frozen=True)
class Sweep:
    """One shape of attention, from hardly any of it for the new slots to hardly any for the old ones."""

    shape: str
    old_read: int
    new_read: int
    points: tuple[Point, ...]

    @property
    def breaks_at(self) -> float:
        return breaking_ratio(self.old_read, self.new_read)

    def to_json(self) -> dict[str, Any]:
        breaks_at = self.breaks_at if math.isfinite(self.breaks_at) else None
        return {**asdict(self), "breaks_at": breaks_at}


def sweep(shape: str, samples: int, seed: int) -> Sweep:
    """Every ratio in turn, with weights and values drawn anew for each."""
    old_read, new_read = SHAPES[shape]
    old, new = _equal(old_read, SIZES.old), _equal(new_read, SIZES.new)
    points = []
    for ratio in RATIOS:
        share = ratio / (1 + ratio)
        rng = np.random.default_rng(derive(seed, "sweep", shape, ratio))
        measured = _measure(changes(old, ratio * new), samples, rng)
        points.append(Point(ratio, share, bool(assumption_holds(share)), shift(share, old_read, new_read), measured))
    return Sweep(shape, old_read, new_read, tuple(points))


def _equal(read: int, slots: int) -> Array:
    """Attention of 1 in all, in equal parts for the first `read` slots."""
    return np.repeat([1.0 / read, 0.0], [read, slots - read])


def _measure(beta: Array, samples: int, rng: np.random.Generator) -> Estimate:
    read = np.flatnonzero(beta)  # what nobody reads need not be drawn
    values = rng.normal(scale=SIZES.sigma, size=(samples, len(read), SIZES.slot_size))
    weights = rng.normal(scale=SIZES.sigma, size=(samples, SIZES.hidden, SIZES.slot_size))
    moved = np.square((weights @ (beta[read] @ values)[..., None])[..., 0]).sum(-1)
    estimate = Estimate.of(moved / SIZES.state_change())
    assert estimate is not None, "there are always draws"
    return estimate
