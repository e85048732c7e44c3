"""Is a method better than another? Rows of a table against one of them, by the paper's test and by better ones."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrow.errors import DataError, SettingsError
from memgrow.metrics.correctness import Correct, correctness
from memgrow.metrics.false_positives import (
    FalsePositives,
    Rate,
    SeedPairs,
    paper_test_between_seeds,
    paper_test_false_positives,
)
from memgrow.metrics.paired import Paired, Spread, paired_over_seeds, spread
from memgrow.metrics.paper_test import Arrow, PaperTest, paper_test
from memgrow.metrics.seeds_and_examples import RESAMPLES, Crossed, McNemar, paired_over_examples

__all__ = [
    "Adjusted",
    "Arrow",
    "Comparison",
    "Crossed",
    "FalsePositives",
    "McNemar",
    "Paired",
    "PaperTest",
    "Rate",
    "SeedPairs",
    "Spread",
    "compare_rows",
    "holm",
    "paired_over_examples",
    "paired_over_seeds",
    "paper_test",
    "paper_test_between_seeds",
    "paper_test_false_positives",
    "spread",
]


@dataclass(frozen=True)
class Adjusted:
    """The p-values of a comparison after Holm's correction for the number of rows, each kind of test by itself."""

    p_t: float | None
    p_permutation: float | None
    p_crossed: float | None
    p_mcnemar: float | None


@dataclass(frozen=True)
class Comparison:
    """A row against the reference; all differences are row minus reference, so below zero where the row is worse.

    `paper` is the paper's test on the first seed, `arrows` the arrow that each of the seeds would have given.
    """

    reference: str
    accuracy: Spread
    reference_accuracy: Spread
    over_seeds: Paired
    over_examples: Crossed
    adjusted: Adjusted
    paper: PaperTest
    arrows: tuple[Arrow | None, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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


def compare_rows(
    reference: str, rows: Mapping[str, ArrayLike], seed: int = 0, *, resamples: int = RESAMPLES
) -> dict[str, Comparison]:
    """Every other row against the reference, from correctness (seeds, examples) of each on the same examples.

    Row k of each array is the same seed's; where one has fewer seeds, the first so many of both are compared.
    """
    if reference not in rows:
        raise SettingsError(f"there is no row {reference!r} to compare with: there are {', '.join(rows)}")
    tables = {name: correctness(values, f"row {name!r}") for name, values in rows.items()}
    ours = tables.pop(reference)
    for name, row in tables.items():
        if row.shape[1] != ours.shape[1]:
            raise DataError(
                f"row {name!r} was tested on {row.shape[1]} examples and {reference!r} on {ours.shape[1]}: "
                "rows are compared on the same examples"
            )
    pairs = {name: _common(row, ours) for name, row in tables.items()}
    over_seeds = {name: paired_over_seeds(_accuracies(a), _accuracies(b)) for name, (a, b) in pairs.items()}
    over_examples = {name: paired_over_examples(a, b, seed, resamples=resamples) for name, (a, b) in pairs.items()}
    p_t = holm({name: one.p_t for name, one in over_seeds.items()})
    p_permutation = holm({name: one.p_permutation for name, one in over_seeds.items()})
    p_crossed = holm({name: one.p for name, one in over_examples.items()})
    p_mcnemar = holm({name: one.mcnemar.p for name, one in over_examples.items()})
    return {
        name: Comparison(
            reference=reference,
            accuracy=spread(_accuracies(a)),
            reference_accuracy=spread(_accuracies(b)),
            over_seeds=over_seeds[name],
            over_examples=over_examples[name],
            adjusted=Adjusted(p_t[name], p_permutation[name], p_crossed[name], p_mcnemar[name]),
            paper=paper_test(b, a, seed),
            arrows=tuple(paper_test(us, other, seed).arrow for other, us in zip(a, b, strict=True)),
        )
        for name, (a, b) in pairs.items()
    }


def _common(a: Correct, b: Correct) -> tuple[Correct, Correct]:
    seeds = min(len(a), len(b))
    return a[:seeds], b[:seeds]


def _accuracies(correct: Correct) -> NDArray[np.float64]:  # (seeds,)
    accuracies: NDArray[np.float64] = correct.mean(axis=1)
    return accuracies
