"""Two methods compared over seeds and test examples at once, and two single models by McNemar's test.

The material is correctness: for each seed and test example whether the model was right. Seeds and examples are crossed
random effects: every seed answers every example, and either could have been others.
"""

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrow.errors import DataError
from research.common.significance import CONFIDENCE, interval, two_sided

Correct = NDArray[np.bool_]

RESAMPLES = 10_000
AT_ONCE = 200_000  # numbers of one block of resamples, so that a block stays in the processor's cache


@dataclass(frozen=True)
class McNemar:
    """The examples that only one of two models has right, and the exact two-sided p-value of their shares."""

    only_first: int
    only_second: int
    p: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Crossed:
    """The first method's mean accuracy less the second's, for other seeds and other test examples.

    `boot_low` and `boot_high` are the 95% interval of a bootstrap over seeds and examples: too wide where the seeds
    hardly differ, too narrow with fewer than ten that do. `low`, `high` and `p` are from the variances instead, by
    Student's t, and hold with few seeds as well. `error_seeds` and `error_examples` are the standard errors if only
    seeds, or only examples, were drawn anew. With one seed all of it speaks of these two models alone. `mcnemar` is
    of the first seed.
    """

    difference: float
    seeds: int
    examples: int
    boot_low: float
    boot_high: float
    error: float | None
    error_seeds: float | None
    error_examples: float | None
    low: float | None
    high: float | None
    p: float | None
    mcnemar: McNemar

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def paired_over_examples(a: ArrayLike, b: ArrayLike, seed: int = 0, *, resamples: int = RESAMPLES) -> Crossed:
    """Compare two methods by their correctness, (seeds, examples), at the same seeds on the same examples."""
    first, second = pair(a, b)
    differences = first.astype(np.float64) - second
    seeds, examples = differences.shape
    boot = crossed_bootstrap(differences, resamples, np.random.default_rng(seed))
    tail = (1 - CONFIDENCE) / 2
    boot_low, boot_high = (float(edge) for edge in np.quantile(boot, (tail, 1 - tail)))
    mean = float(differences.mean())
    errors = _standard_errors(differences)
    low, high = interval(mean, errors.both, errors.freedom)
    return Crossed(
        difference=mean,
        seeds=seeds,
        examples=examples,
        boot_low=boot_low,
        boot_high=boot_high,
        error=errors.both,
        error_seeds=errors.seeds,
        error_examples=errors.examples,
        low=low,
        high=high,
        p=two_sided(mean, errors.both, errors.freedom),
        mcnemar=mcnemar(first[0], second[0]),
    )


def correctness(values: ArrayLike, name: str) -> Correct:
    """The values as (seeds, examples) of true and false; a single model may come without its first axis."""
    array = np.atleast_2d(np.asarray(values))
    if array.ndim != 2 or array.size == 0:
        raise DataError(f"{name} has the shape {np.shape(values)}: give one row per seed and one column per example")
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise DataError(f"{name} holds values other than true and false: give for each example whether it was right")
    return array.astype(np.bool_)


def pair(a: ArrayLike, b: ArrayLike) -> tuple[Correct, Correct]:
    """Two methods at the same seeds on the same examples."""
    first, second = correctness(a, "the first method"), correctness(b, "the second method")
    if first.shape != second.shape:
        shapes = " and ".join("{} seeds x {} examples".format(*one.shape) for one in (first, second))
        raise DataError(f"two methods are compared on the same seeds and examples, and these have {shapes}")
    return first, second


def crossed_bootstrap(
    values: NDArray[np.float64], resamples: int, rng: np.random.Generator
) -> NDArray[np.float64]:  # (resamples,)
    """Means of `values` (seeds, examples), each time with seeds and examples drawn anew, with replacement."""
    seeds, examples = values.shape
    block = max(1, AT_ONCE // examples)
    means = []
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        by_example = _weights(seeds, count, rng) @ values  # (count, examples)
        means.append(np.einsum("re,re->r", by_example, _weights(examples, count, rng)))
    return np.concatenate(means)


def mcnemar(a: Correct, b: Correct) -> McNemar:
    """Whether two models differ on the same examples, from those that one of them alone has right."""
    only_first, only_second = int((a & ~b).sum()), int((b & ~a).sum())
    apart = only_first + only_second
    # In whole numbers, exact to the last digit for thousands of examples; scipy's binomtest is so to about 13 digits.
    tail = ways = 1
    for heads in range(min(only_first, only_second)):
        ways = ways * (apart - heads) // (heads + 1)
        tail += ways
    return McNemar(only_first, only_second, min(1.0, 2 * tail / 2**apart))


@dataclass(frozen=True)
class _Errors:
    """Standard errors of the mean if seeds and examples, or only one of the two, were drawn anew."""

    both: float | None
    seeds: float | None
    examples: float | None
    freedom: float


def _standard_errors(values: NDArray[np.float64]) -> _Errors:
    """The mean's standard error from seeds, from examples and from both, with Satterthwaite's degrees of freedom.

    The means of seeds and those of examples both hold the noise that is in each single answer; it is taken off once.
    """
    seeds, examples = values.shape
    of_seeds, of_examples = values.mean(axis=1), values.mean(axis=0)
    if examples < 2:
        return _Errors(None, None, None, 0)
    from_examples = float(of_examples.var(ddof=1)) / examples
    if seeds < 2:
        return _Errors(sqrt(from_examples), None, sqrt(from_examples), examples - 1)
    from_seeds = float(of_seeds.var(ddof=1)) / seeds
    noise_freedom = (seeds - 1) * (examples - 1)
    rest = values - of_seeds[:, None] - of_examples + values.mean()
    noise = float((rest**2).sum()) / noise_freedom / values.size
    both = max(from_seeds + from_examples - noise, from_seeds, from_examples)
    doubt = from_seeds**2 / (seeds - 1) + from_examples**2 / (examples - 1) + noise**2 / noise_freedom
    freedom = both**2 / doubt if doubt > 0 else noise_freedom
    return _Errors(sqrt(both), sqrt(from_seeds), sqrt(from_examples), freedom)


def _weights(count: int, resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:  # (resamples, count)
    """The share that each of `count` things has in each resample when as many are drawn with replacement."""
    draws = rng.integers(0, count, (resamples, count)) + count * np.arange(resamples)[:, None]
    return np.bincount(draws.ravel(), minlength=resamples * count).reshape(resamples, count) / count
