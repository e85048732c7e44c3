"""Is a method better than another? Figures of several seeds: their spread, two methods seed by seed, many comparisons.

Intervals and p-values come from Student's t and, beside it, from flipping the signs of the differences. They speak of
other seeds on the same test set; `seeds_and_examples` also asks what other test examples would change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrow.errors import DataError, SettingsError

CONFIDENCE = 0.95
NO_SPREAD = 1e-12  # below this a standard error is rounding; accuracies are at most 100
EXACT = 16  # up to this many seeds all 2^n flips are tried
FLIPS = 20_000

Figures = Sequence[float] | NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Paired:
    """The first method's score less the second's: mean and std of the differences, 95% interval, p two-sided.

    With n seeds `p_permutation` is never below 2/2^n: five seeds cannot bring it under 0.05. Where all differences are
    equal and not zero there is no spread to judge by, and no interval and no `p_t`.
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


def paired_over_seeds(a: Figures, b: Figures) -> Paired:
    """Compare the accuracies of two methods, each at the same seeds in the same order."""
    first, second = _figures(a), _figures(b)
    if first.size != second.size:
        raise DataError(f"seeds are compared in pairs: {first.size} figures cannot be set beside {second.size}")
    differences = first - second
    mean, std, error = _moments(differences)
    low, high = interval(mean, error, differences.size - 1)
    p_t = two_sided(mean, error, differences.size - 1)
    return Paired(mean, std, differences.size, low, high, p_t, sign_flip(differences))


def sign_flip(differences: NDArray[np.float64], seed: int = 0) -> float:
    """The share of random signs that give the differences as large a mean, either way, as they have.

    `scipy.stats.permutation_test` draws other flips beyond EXACT seeds, and takes far longer.
    """
    n = differences.size
    if n <= EXACT:
        flips = (np.arange(2**n)[:, None] >> np.arange(n)) % 2
    else:
        flips = np.random.default_rng(seed).integers(0, 2, (FLIPS, n))
        flips[0] = 1  # the signs as they are belong among the flips: otherwise p could be zero
    means = np.abs((2.0 * flips - 1) @ differences)
    rounding = 1e-9 * np.abs(differences).sum()
    return float(np.mean(means >= abs(differences.sum()) - rounding))


def holm(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Holm-Bonferroni: p-values that stay below a level only if they do so among all of them.

    What has no p-value was not tested: it keeps none and does not count.
    """
    known = sorted((p, name) for name, p in p_values.items() if p is not None)
    adjusted: dict[str, float | None] = dict.fromkeys(p_values)
    largest = 0.0
    for rank, (p, name) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[name] = largest
    return adjusted


def interval(estimate: float, error: float | None, freedom: float) -> tuple[float | None, float | None]:
    """The 95% interval by Student's t; none where nothing varies, for then there is nothing to judge by."""
    if error is None or error <= NO_SPREAD:
        return None, None
    half = float(_scipy_special().stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return estimate - half, estimate + half


def two_sided(estimate: float, error: float | None, freedom: float) -> float | None:
    """The p-value of "the truth is zero": 1 where every difference is zero, none where nothing else can be said."""
    if error is None:
        return None
    if error <= NO_SPREAD:
        return 1.0 if abs(estimate) <= NO_SPREAD else None
    return min(1.0, 2 * float(_scipy_special().stdtr(freedom, -abs(estimate) / error)))


def _scipy_special() -> Any:
    """The module with Student's t that `scipy.stats.t` wraps: the same figures, without loading all of scipy.stats."""
    try:
        import scipy.special
    except ImportError as error:
        raise SettingsError(
            "intervals and p-values need scipy: install it with `pip install 'memgrow[stats]'`"
        ) from error
    return scipy.special


def _moments(values: NDArray[np.float64]) -> tuple[float, float | None, float | None]:
    """Mean, standard deviation, and standard error of the mean."""
    if values.size < 2:
        return float(values.mean()), None, None
    std = float(values.std(ddof=1))
    return float(values.mean()), std, std / float(np.sqrt(values.size))


def _figures(values: Figures) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise DataError("figures of seeds must be one finite number for each seed: leave out runs that failed")
    return array
