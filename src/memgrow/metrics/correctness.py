"""Which test examples each model of a method answers correctly: the material of all comparisons over examples."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrow.errors import DataError

Correct = NDArray[np.bool_]


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
