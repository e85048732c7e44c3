"""The paper's test: a one-tailed Wilcoxon signed-rank test over 10 bootstrapped subsets of 200 test examples.

It is here because the paper's arrows come from it, not because it should be trusted. The subsets are drawn from one and
the same test set, so they are no independent evidence: whatever difference chance gave the two models on that test set
comes back in every subset, and p falls towards zero as more subsets are drawn. Nor does a single model per method say
how much of the difference is the seed's. benchmarks/paper_test.py measures how often equal methods get an arrow.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from research.common.seeds_and_examples import pair

Arrow = Literal["DOWN", "down", "up", "UP"]
SUBSETS, SIZE = 10, 200
ARROWS: tuple[tuple[float, Arrow, Arrow], ...] = ((0.01, "DOWN", "UP"), (0.05, "down", "up"))  # the strictest first


@dataclass(frozen=True)
class PaperTest:
    """The accuracies over all subsets, the p-value in each direction, and the arrow that the other row gets."""

    ours: float
    other: float
    p_worse: float
    p_better: float
    arrow: Arrow | None
    subsets: int
    size: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def paper_test(
    ours: ArrayLike, other: ArrayLike, seed: int = 0, *, subsets: int = SUBSETS, size: int = SIZE
) -> PaperTest:
    """Whether `other` is worse or better than `ours`, from which examples each of them got right.

    The paper had one model per method: of several seeds, (seeds, examples), the first is taken. Both models are tried
    on the same subsets, and `seed` decides which examples these hold.
    """
    us, them = (rows[0] for rows in pair(ours, other))
    draws = np.random.default_rng(seed).integers(0, us.size, (subsets, size))
    ours_right, other_right = us[draws].sum(axis=1), them[draws].sum(axis=1)
    p_worse, p_better = signed_rank(other_right - ours_right)
    return PaperTest(
        ours=float(ours_right.sum() / draws.size),
        other=float(other_right.sum() / draws.size),
        p_worse=p_worse,
        p_better=p_better,
        arrow=arrow_for(p_worse, p_better),
        subsets=subsets,
        size=size,
    )


def signed_rank(differences: NDArray[np.int64]) -> tuple[float, float]:
    """Wilcoxon's exact p-values of "below zero" and "above zero".

    Zeros are left out and ties share their mean rank, both as Wilcoxon had it. Subsets of 200 tie often, which is where
    tabulated and approximate p-values are off (as scipy's are before 1.15); so the distribution is built from the ranks
    that there are.
    """
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
