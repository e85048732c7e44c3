"""Is a method better than another? Tests over seeds, over seeds and examples, and the paper's own.

The paper uses a one-tailed Wilcoxon signed-rank test over 10 bootstrapped subsets of 200 test examples. The subsets
come from one test set, so they are no independent evidence: research.paper.false_positives measures how often equal
methods get an arrow.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from memgrow.errors import DataError

CONFIDENCE = 0.95
NO_SPREAD = 1e-12  # below this a standard error is rounding
EXACT, FLIPS = 16, 20_000  # up to so many seeds all 2^n flips are tried, else so many drawn ones

Arrow = Literal["DOWN", "down", "up", "UP"]
SUBSETS, SIZE = 10, 200
ARROWS: tuple[tuple[float, Arrow, Arrow], ...] = ((0.01, "DOWN", "UP"), (0.05, "down", "up"))  # the strictest first

Floats = NDArray[np.float64]
Correct = NDArray[np.bool_]


# Over seeds


@dataclass(frozen=True)
class Paired:
    """The first method's score less the second's: mean and std of the differences, 95% interval, p two-sided.

    With n seeds `p_permutation` is never below 2/2^n. Where all differences are equal and not zero there is no spread
    to judge by, and no interval and no `p_t`.
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


def paired_over_seeds(a: ArrayLike, b: ArrayLike) -> Paired:
    """Compare the scores of two methods, each at the same seeds in the same order."""
    first, second = (np.asarray(values, dtype=np.float64) for values in (a, b))
    if first.shape != second.shape or first.ndim != 1 or not first.size or not np.isfinite(first + second).all():
        raise DataError("two methods are compared by one finite score for each seed, at the same seeds")
    differences = first - second
    n, mean = differences.size, float(differences.mean())
    std = float(differences.std(ddof=1)) if n > 1 else None
    error = None if std is None else std / float(np.sqrt(n))
    p_t = two_sided(mean, error, n - 1)
    return Paired(mean, std, n, *interval(mean, error, n - 1), p_t, sign_flip(differences))


def sign_flip(differences: Floats, seed: int = 0) -> float:
    """The share of random signs that give the differences as large a mean, either way, as they have."""
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
    """Holm-Bonferroni. What has no p-value was not tested: it keeps none and does not count."""
    known = sorted((p, name) for name, p in p_values.items() if p is not None)
    adjusted: dict[str, float | None] = dict.fromkeys(p_values)
    largest = 0.0
    for rank, (p, name) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[name] = largest
    return adjusted


def interval(estimate: float, error: float | None, freedom: float) -> tuple[float | None, float | None]:
    """The 95% interval by Student's t; none where nothing varies."""
    if error is None or error <= NO_SPREAD:
        return None, None
    half = float(scipy.special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return estimate - half, estimate + half


def two_sided(estimate: float, error: float | None, freedom: float) -> float | None:
    """The p-value of "the truth is zero": 1 where every difference is zero, none where nothing else can be said."""
    if error is None:
        return None
    if error <= NO_SPREAD:
        return 1.0 if abs(estimate) <= NO_SPREAD else None
    return min(1.0, 2 * float(scipy.special.stdtr(freedom, -abs(estimate) / error)))


# Over seeds and examples, which are crossed random effects: either could have been others


@dataclass(frozen=True)
class Crossed:
    """The first method's mean accuracy less the second's, for other seeds and other test examples.

    `low`, `high` and `p` are from the variances, by Student's t. With one seed they speak of these two models alone.
    `p_mcnemar` is of the first seed.
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_mcnemar: float


def paired_over_examples(a: ArrayLike, b: ArrayLike) -> Crossed:
    """Compare two methods by their correctness, (seeds, examples), at the same seeds on the same examples."""
    first, second = _pair(a, b)
    differences = first.astype(np.float64) - second
    mean = float(differences.mean())
    error, freedom = _standard_error(differences)
    low, high = interval(mean, error, freedom)
    return Crossed(mean, low, high, two_sided(mean, error, freedom), mcnemar(first[0], second[0]))


def mcnemar(a: Correct, b: Correct) -> float:
    """The exact two-sided p-value of two models, from the examples that one of them alone has right."""
    only_first, only_second = int((a & ~b).sum()), int((b & ~a).sum())
    apart = only_first + only_second
    tail = ways = 1  # in whole numbers, exact for thousands of examples
    for heads in range(min(only_first, only_second)):
        ways = ways * (apart - heads) // (heads + 1)
        tail += ways
    return min(1.0, float(2 * tail / 2**apart))


def correctness(values: ArrayLike) -> Correct:
    """The values as (seeds, examples) of true and false; a single model may come without its first axis."""
    array = np.atleast_2d(np.asarray(values))
    if array.ndim != 2 or array.size == 0 or not np.isin(array, (0, 1)).all():
        raise DataError("correctness is true or false, for each seed (row) and example (column)")
    return array.astype(np.bool_)


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[Correct, Correct]:
    first, second = correctness(a), correctness(b)
    if first.shape != second.shape:
        raise DataError("two methods are compared on the same seeds and examples")
    return first, second


def _standard_error(values: Floats) -> tuple[float | None, float]:
    """The mean's standard error if seeds and examples were drawn again, with Satterthwaite's degrees of freedom.

    The means of seeds and those of examples both hold the noise that is in each single answer; it is taken off once.
    """
    seeds, examples = values.shape
    of_seeds, of_examples = values.mean(axis=1), values.mean(axis=0)
    if examples < 2:
        return None, 0
    from_examples = float(of_examples.var(ddof=1)) / examples
    if seeds < 2:
        return sqrt(from_examples), examples - 1
    from_seeds = float(of_seeds.var(ddof=1)) / seeds
    noise_freedom = (seeds - 1) * (examples - 1)
    rest = values - of_seeds[:, None] - of_examples + values.mean()
    noise = float((rest**2).sum()) / noise_freedom / values.size
    both = max(from_seeds + from_examples - noise, from_seeds, from_examples)
    doubt = from_seeds**2 / (seeds - 1) + from_examples**2 / (examples - 1) + noise**2 / noise_freedom
    return sqrt(both), both**2 / doubt if doubt > 0 else noise_freedom


# The paper's test


@dataclass(frozen=True)
class PaperTest:
    """The p-value in each direction, and the arrow that the other row gets."""

    p_worse: float
    p_better: float
    arrow: Arrow | None


def paper_test(
    ours: ArrayLike, other: ArrayLike, seed: int = 0, *, subsets: int = SUBSETS, size: int = SIZE
) -> PaperTest:
    """Whether `other` is worse or better than `ours`, from which examples each of them got right.

    The paper had one model for each method: of several seeds the first is taken. Both models are tried on the same
    subsets, and `seed` decides which examples these hold.
    """
    us, them = (rows[0] for rows in _pair(ours, other))
    draws = np.random.default_rng(seed).integers(0, us.size, (subsets, size))
    p_worse, p_better = signed_rank(them[draws].sum(axis=1) - us[draws].sum(axis=1))
    return PaperTest(p_worse, p_better, arrow_for(p_worse, p_better))


def signed_rank(differences: NDArray[np.int64]) -> tuple[float, float]:
    """Wilcoxon's exact p-values of "below zero" and "above zero"; zeros are left out, ties share their mean rank."""
    moved = differences[differences != 0]
    if moved.size == 0:
        return 1.0, 1.0
    _, place, ties = np.unique(np.abs(moved), return_inverse=True, return_counts=True)
    ranks = (2 * np.cumsum(ties) - ties + 1)[place]  # twice the mean rank, so that all are whole
    chances = np.zeros(int(ranks.sum()) + 1)  # of each sum of the positive ranks, when every sign is a fair coin's
    chances[0] = 1.0
    for rank in ranks:
        chances[rank:] += chances[:-rank].copy()
        chances /= 2
    positive = int(ranks[moved > 0].sum())
    return min(1.0, float(chances[: positive + 1].sum())), min(1.0, float(chances[positive:].sum()))


def arrow_for(p_worse: float, p_better: float) -> Arrow | None:
    """The arrow that the paper gives to such p-values."""
    for level, down, up in ARROWS:
        if min(p_worse, p_better) < level:
            return down if p_worse < p_better else up
    return None
