"""Paired comparison of two methods over seeds: Student's t and a sign-flip permutation test."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrow.errors import DataError

CONFIDENCE = 0.95
NO_SPREAD = 1e-12  # below this a standard error is rounding
EXACT_SEEDS = 16  # up to this many seeds all 2^n sign flips are counted
FLIPS = 20_000

Scores = Sequence[float] | NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Paired:
    """The first method's score minus the second's: mean, standard deviation, 95% interval, two-sided p-values.

    With n seeds `p_permutation` is at least 2/2^n. Without spread, or without scipy, there is no interval.
    """

    difference: float
    std: float | None
    n: int
    low: float | None
    high: float | None
    p_t: float | None
    p_permutation: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def paired_over_seeds(a: Scores, b: Scores) -> Paired:
    """Compare the scores of two methods, each at the same seeds in the same order."""
    first, second = _finite_row(a), _finite_row(b)
    if first.size != second.size:
        raise DataError(f"paired comparison needs the same seeds: {first.size} scores and {second.size}")
    differences = first - second
    n, mean = differences.size, float(differences.mean())
    std = float(differences.std(ddof=1)) if n > 1 else None
    error = None if std is None else std / n**0.5
    low = high = p_t = None
    if error is not None and error > NO_SPREAD and (special := _scipy_special()) is not None:
        half = float(special.stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * error
        low, high = mean - half, mean + half
        p_t = min(1.0, 2 * float(special.stdtr(n - 1, -abs(mean) / error)))
    elif error is not None and abs(mean) <= NO_SPREAD:
        p_t = 1.0
    return Paired(mean, std, n, low, high, p_t, sign_flip(differences))


def sign_flip(differences: NDArray[np.float64], seed: int = 0) -> float:
    """The share of random signs that give the differences at least as large an absolute mean."""
    n = differences.size
    if n <= EXACT_SEEDS:
        flips = (np.arange(2**n)[:, None] >> np.arange(n)) % 2
    else:
        flips = np.random.default_rng(seed).integers(0, 2, (FLIPS, n))
        flips[0] = 1  # the observed signs are one of the flips, so that p is never zero
    sums = np.abs((2.0 * flips - 1) @ differences)
    rounding = 1e-9 * np.abs(differences).sum()
    return float(np.mean(sums >= abs(differences.sum()) - rounding))


def _scipy_special() -> Any:
    """Student's t, without loading scipy.stats; None where scipy is not installed."""
    try:
        import scipy.special
    except ImportError:
        return None
    return scipy.special


def _finite_row(values: Scores) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise DataError("scores over seeds must be one finite number per seed: leave out runs that failed")
    return array
