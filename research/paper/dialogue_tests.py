"""Rows of replies against one of them: the paper's test, and a paired bootstrap over examples and seeds."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from research.common.replies import BleuCounts, ReplyScores
from research.common.statistics import SIZE, SUBSETS, arrow_for, paired_over_seeds, signed_rank
from research.paper.accuracies import P_DIGITS, count_arrows, rounded
from research.paper.figures import Json

Scored = Mapping[int, ReplyScores]
"""What a row's models answered to one domain's test messages, by seed."""

Floats = NDArray[np.float64]
TAIL = 0.025
BLOCK = 2_000_000  # numbers of one block of resamples
FINE = 1e9  # Wilcoxon's test is of whole numbers: steps so small that scores tie only where they are equal


def compare(rows: Sequence[Scored], at: int, measure: str, resamples: int) -> dict[int, Json]:
    """A test of every row that has seeds in common with the one at `at`; differences are row minus reference."""
    asked = {number: sorted(set(row) & set(rows[at])) for number, row in enumerate(rows) if number != at}
    asked = {number: seeds for number, seeds in asked.items() if seeds}
    if not asked:
        return {}
    models = {(number, seed): scores for number, row in enumerate(rows) for seed, scores in row.items()}
    place = {key: k for k, key in enumerate(models)}
    scores = SCORES[measure](list(models.values()))
    examples = len(next(iter(models.values())).counts.references)
    whole = scores(np.ones((1, examples)))[0]
    subsets = scores(_draws(np.random.default_rng(0), SUBSETS, examples, SIZE))
    boot = np.concatenate(
        [scores(weights) for weights in _blocks(np.random.default_rng(1), resamples, examples)]
    )  # (resamples, models)
    found = {}
    for number, seeds in asked.items():
        them, us = ([place[row, seed] for seed in seeds] for row in (number, at))
        test = _test(whole[them] - whole[us], subsets[:, them] - subsets[:, us], boot[:, them] - boot[:, us])
        found[number] = {**test, "p_over_seeds": rounded(paired_over_seeds(whole[them], whole[us]).p_t)}
    return found


def _test(whole: Floats, subsets: Floats, boot: Floats) -> Json:
    """A test from differences by seed: of the whole test set, of the paper's subsets, and of the bootstrap's."""
    resamples, seeds = boot.shape
    drawn = _draws(np.random.default_rng(2), resamples, seeds, seeds) / seeds
    means = (boot * drawn).sum(axis=1)
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    low, high = np.quantile(means, (TAIL, 1 - TAIL))
    papers = [signed_rank(np.rint(one * FINE).astype(np.int64)) for one in subsets.T]
    return {
        "arrow": arrow_for(*papers[0]),
        "arrows": count_arrows(arrow_for(*paper) for paper in papers),
        "p_paper": rounded(min(papers[0])),
        "seeds": seeds,
        "difference": round(float(whole.mean()), P_DIGITS),
        "low": round(float(low), P_DIGITS),
        "high": round(float(high), P_DIGITS),
        "p": min(1.0, 2 * (beyond + 1) / (resamples + 1)),
    }


class _Bleu:
    """BLEU-2 of many models at once: one product for each block of sets, as the weights are what is large."""

    def __init__(self, models: Sequence[ReplyScores]) -> None:
        parts = [np.column_stack((m.counts.matches, m.counts.totals, m.counts.references)) for m in models]
        self.columns = np.concatenate(parts, axis=1).astype(np.float64)  # (examples, models * 5)
        self.each = np.eye(len(models))

    def __call__(self, weights: Floats) -> Floats:  # (sets, models)
        sums = np.rint(weights @ self.columns).astype(np.int64).reshape(len(weights), -1, 5)
        return np.stack([BleuCounts(s[:, :2], s[:, 2:4], s[:, 4]).scores(self.each) for s in sums])


class _Similarity:
    """The mean of W2V-Sim, which all models have."""

    def __init__(self, models: Sequence[ReplyScores]) -> None:
        self.columns = np.column_stack([_cosines(model) for model in models])  # (examples, models)

    def __call__(self, weights: Floats) -> Floats:  # (sets, models)
        means: Floats = weights @ self.columns / weights.sum(axis=1, keepdims=True)
        return means


SCORES: dict[str, type[_Bleu] | type[_Similarity]] = {"bleu2": _Bleu, "w2v_sim": _Similarity}


def _cosines(model: ReplyScores) -> Floats:
    assert model.similarity is not None  # rows without it are not compared by it
    return model.similarity


def _blocks(rng: np.random.Generator, resamples: int, examples: int) -> Iterator[Floats]:
    block = max(1, BLOCK // examples)
    for start in range(0, resamples, block):
        yield _draws(rng, min(block, resamples - start), examples, examples)


def _draws(rng: np.random.Generator, sets: int, things: int, size: int) -> Floats:  # (sets, things)
    """How often each thing is in each set of that size, drawn with replacement."""
    drawn = rng.integers(0, things, (sets, size)) + things * np.arange(sets)[:, None]
    return np.bincount(drawn.ravel(), minlength=sets * things).reshape(sets, things).astype(np.float64)
