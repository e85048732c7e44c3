"""Theorem 1 by Monte Carlo: both sides drawn, and attention set by hand until the bound gives way."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from research.theorem.closed_form import (
    ALWAYS_SAFE,
    Array,
    Estimate,
    Sizes,
    assumption_holds,
    breaking_ratio,
    changes,
    derive,
    share_of_new,
    shift,
)

BASE = Sizes()
PAPER = Sizes(300, 300, 500, 500, 1 / math.sqrt(3 * 300))  # sigma: that of numbers drawn from U(-1/sqrt D, 1/sqrt D)
SETTINGS: dict[str, Sizes] = {
    "base": BASE,
    "D=10": replace(BASE, hidden=10),
    "D=300": replace(BASE, hidden=300),
    "d=10": replace(BASE, slot_size=10),
    "d=300": replace(BASE, slot_size=300),
    "N=5": replace(BASE, old=5),
    "N=500": replace(BASE, old=500),
    "M=5": replace(BASE, new=5),
    "M=500": replace(BASE, new=500),
    "σ=0.03": replace(BASE, sigma=0.03),
    "σ=0.1": replace(BASE, sigma=0.1),
    "σ=1": replace(BASE, sigma=1.0),
    "σ=1 N=5": replace(BASE, sigma=1.0, old=5),
    "paper's": PAPER,
}
TIED: dict[str, Sizes] = {  # where values that are the keys make a difference, and where they no longer do
    f"D=d={size} N={old} σ={sigma}": Sizes(size, size, old, 50, sigma)
    for old, sigma in ((50, 4.0), (5, 1.0))
    for size in (2, 10, 50)
}
BUDGET = 60_000_000  # numbers drawn for one setting: large ones are drawn less often, and vary less
AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Drawn:
    """Both sides of the theorem for one choice of sizes. `holding` and `failing`: where its assumption does, or not."""

    sizes: Sizes
    samples: int
    state: Estimate  # |h' - h|^2 when d hidden units are added
    memory: Estimate  # when M slots are added
    shift: Estimate  # the sum of squared betas
    holds: float  # share of the draws in which the assumption on attention holds
    memory_holding: Estimate | None
    memory_failing: Estimate | None
    shift_holding: Estimate | None
    shift_failing: Estimate | None
    tied: Estimate | None  # `memory` if the values are the keys; None where their sizes differ
    tied_holding: Estimate | None
    surprise: float  # standard errors between `memory` and its closed form, draw by draw

    def memory_closed(self) -> float:
        """D d sigma^4 E[shift], the expectation being the mean over the same draws of keys."""
        return self.sizes.state_change() * self.shift.mean

    def to_json(self) -> dict[str, Any]:
        closed = {"state_closed": self.sizes.state_change(), "memory_closed": self.memory_closed()}
        return {**asdict(self), **closed}


def draw(sizes: Sizes, samples: int, seed: int) -> Drawn:
    """Draw weights, states, keys and values `samples` times; fewer where the sizes would take too long."""
    numbers = 2 * sizes.hidden * sizes.slot_size + (sizes.old + sizes.new) * (sizes.hidden + sizes.slot_size)
    samples = max(2, min(samples, BUDGET // numbers))
    chunk = max(1, AT_ONCE // numbers)
    rng = np.random.default_rng(derive(seed, "theorem", *asdict(sizes).values()))
    parts = [_draw(sizes, min(chunk, samples - at), rng) for at in range(0, samples, chunk)]
    state, memory, shift, share, tied = (np.concatenate(part) for part in zip(*parts, strict=True))
    holds = assumption_holds(share)
    gap = Estimate.of(memory - sizes.state_change() * shift)
    return Drawn(
        sizes,
        samples,
        state=_estimate(state),
        memory=_estimate(memory),
        shift=_estimate(shift),
        holds=float(holds.mean()),
        memory_holding=Estimate.of(memory[holds]),
        memory_failing=Estimate.of(memory[~holds]),
        shift_holding=Estimate.of(shift[holds]),
        shift_failing=Estimate.of(shift[~holds]),
        tied=Estimate.of(tied),
        tied_holding=Estimate.of(tied[holds]) if len(tied) else None,
        surprise=gap.mean / gap.error if gap and gap.error else 0.0,
    )


def _draw(sizes: Sizes, samples: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array, Array]:
    """For each sample: state change, memory change, shift, share of the new slots, memory change with values = keys."""

    def normal(*shape: int) -> Any:
        return rng.standard_normal((samples, *shape), dtype=np.float32) * np.float32(sizes.sigma)

    def moved(weights: Any, content: Any) -> Array:
        return np.asarray(np.square((weights @ content[..., None])[..., 0], dtype=np.float64).sum(-1))

    slots = sizes.old + sizes.new
    state = moved(normal(sizes.hidden, sizes.slot_size), normal(sizes.slot_size))
    keys, h = normal(slots, sizes.hidden), normal(sizes.hidden)
    logits = (keys @ h[..., None])[..., 0].astype(np.float64)  # (samples, N + M)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    # Where one side is out of the other's sight, its weights may all be zero, and divide among themselves anyhow.
    old, new = (np.maximum(part, np.finfo(np.float64).tiny) for part in np.split(weights, [sizes.old], axis=-1))
    beta, share = changes(old, new), share_of_new(old, new)
    reading = normal(sizes.hidden, sizes.slot_size)  # W_(c), which turns content into states

    def answer(values: Any) -> Any:
        return (beta[:, None, :].astype(np.float32) @ values)[:, 0]

    memory = moved(reading, answer(normal(slots, sizes.slot_size)))
    tied = moved(reading, answer(keys)) if sizes.hidden == sizes.slot_size else np.empty(0)
    return state, memory, np.square(beta).sum(-1), share, tied


def _estimate(values: Array) -> Estimate:
    estimate = Estimate.of(values)
    assert estimate is not None, "there are always draws"
    return estimate


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
    """Every ratio in turn, with weights and values drawn again for each."""
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
    read = np.flatnonzero(beta)  # what is not read need not be drawn
    values = rng.normal(scale=SIZES.sigma, size=(samples, len(read), SIZES.slot_size))
    weights = rng.normal(scale=SIZES.sigma, size=(samples, SIZES.hidden, SIZES.slot_size))
    moved = np.square((weights @ (beta[read] @ values)[..., None])[..., 0]).sum(-1)
    estimate = Estimate.of(moved / SIZES.state_change())
    assert estimate is not None, "there are always draws"
    return estimate
