"""Tests of a window of texts against what is known of the domains that were learnt.

Three hypotheses, each of which holds if the texts are of the learnt domains, in whatever proportion:

- their mean features are a mixture of the domains' means. The statistic is the squared distance from the nearest
  mixture (a maximum mean discrepancy), whose distribution is that of a weighted sum of chi-squares;
- the share of words that the model does not know is not above that of the domain where it is the highest;
- its answers are not less sure than on the domain where they are the least sure. This is tested only if that is known
  of all domains for the model as it is now: of earlier domains it was noted before the model went on to learn others.

The smallest p counts for as many tests as there were (Holm's procedure rejects something exactly if Bonferroni's does).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from memgrow.drift.reference import DomainReference, Shares

STEPS = 500  # of the search for the nearest mixture, at most
ENOUGH = 1e-7  # change of a weight in a step after which there is no other
SEEN = 0.005  # of a mixture: domains with less are not told of
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Window:
    """The means of some texts, which are all that is kept of them."""

    texts: int
    features: Vector  # (FEATURES)
    unknown: float | None  # share of words
    confidence: float | None


@dataclass(frozen=True)
class Verdict:
    """What the tests say of a window."""

    texts: int
    p: float  # of all tests together
    tests: Mapping[str, float]  # p of each by itself
    distance: float  # from the nearest mixture of domains, where 1 is what chance gives
    mixture: Mapping[str, float]  # the nearest one
    unknown: float | None
    usual_unknown: float | None  # of the domain that has the most
    confidence: float | None
    usual_confidence: float | None  # of the domain where it is the lowest

    def rejected(self, alpha: float) -> list[str]:
        """The tests that reject what they test, by Holm's procedure."""
        for place, p in enumerate(sorted(self.tests.values())):
            if p * (len(self.tests) - place) > alpha:
                return [name for name, one in self.tests.items() if one < p]
        return list(self.tests)


def judge(window: Window, domains: Mapping[str, DomainReference], all_known: bool = True) -> Verdict:
    """Hold a window against the domains, of which there is at least one; `all_known`: no other domains were learnt."""
    weights, distance, p = _test_distance(window, list(domains.values()))
    tests = {"distance": p}
    unknown = [one.unknown for one in domains.values() if one.unknown is not None]
    confidence = [one.confidence for one in domains.values() if one.confidence is not None]
    if window.unknown is not None and len(unknown) == len(domains):
        tests["unknown words"] = max(_above(window.unknown, one, window.texts) for one in unknown)
    one_stage = all_known and len({one.stage for one in domains.values()}) == 1
    if window.confidence is not None and one_stage and len(confidence) == len(domains):
        tests["confidence"] = max(_above(window.confidence, one, window.texts, below=True) for one in confidence)
    return Verdict(
        window.texts,
        min(1.0, len(tests) * min(tests.values())),
        tests,
        distance,
        {name: float(w) for name, w in zip(domains, weights, strict=True) if w >= SEEN},
        window.unknown,
        max((one.mean for one in unknown), default=None),
        window.confidence,
        min((one.mean for one in confidence), default=None),
    )


def _test_distance(window: Window, domains: Sequence[DomainReference]) -> tuple[Vector, float, float]:
    """The nearest mixture, how far it is in terms of chance, and the probability of being as far by chance.

    The covariance of the difference is a sum of the domains' covariances. Of these only traces of powers are known,
    whose roots are norms, so that those of the sum are at most the sums of the norms: p is rather too high than too
    low. That the nearest mixture is chosen makes the distance smaller, and p higher, once more.
    """
    means = np.array([one.mean for one in domains])
    weights = nearest_mixture(window.features, means)
    squared = float(np.square(window.features - weights @ means).sum())
    shares = weights / window.texts + weights**2 / np.array([one.texts for one in domains])
    norms = [shares @ np.array([one.spread[power] ** (1 / (power + 1)) for one in domains]) for power in range(3)]
    first, second, third = (float(norm) ** (power + 1) for power, norm in enumerate(norms))
    if first <= 0:  # all texts of the domains were alike
        return weights, math.inf if squared > 0 else 0.0, 0.0 if squared > 1e-12 else 1.0
    return weights, math.sqrt(squared / first), above_weighted_chi_squares(squared, first, second, third)


def above_weighted_chi_squares(value: float, first: float, second: float, third: float) -> float:
    """The probability that a sum of chi-squares, of weights with these sums of powers, is above a value.

    Three moments are matched by a shifted and scaled chi-square (Hall, 1983; Buckley and Eagleson, 1988).
    """
    freedom = second**3 / third**2
    scaled = max(0.0, freedom + (value - first) * second / third)
    shape, at = torch.tensor([freedom / 2, scaled / 2], dtype=torch.double)
    return float(torch.special.gammaincc(shape, at))


def nearest_mixture(point: Vector, means: Vector) -> Vector:
    """The weights, none below 0 and 1 in all, of the mixture of means (domains, F) that is nearest to a point (F).

    By accelerated gradient steps, each followed by a projection on the simplex.
    """
    largest = float(np.linalg.norm(means, 2)) ** 2  # curvature of the squared distance, at most
    weights = ahead = np.full(len(means), 1 / len(means))
    speed = 1.0
    for _ in range(STEPS if len(means) > 1 and largest > 0 else 0):
        new = _on_simplex(ahead - means @ (ahead @ means - point) / largest)
        faster = (1 + math.sqrt(1 + 4 * speed**2)) / 2
        ahead, moved = new + (speed - 1) / faster * (new - weights), float(np.abs(new - weights).max())
        weights, speed = new, faster
        if moved < ENOUGH:
            break
    return weights


def _on_simplex(point: Vector) -> Vector:
    """The nearest point whose entries are none below 0 and 1 in all."""
    falling = np.sort(point)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(point) + 1)
    count = int(np.nonzero(falling > excess)[0][-1])
    nearest: Vector = np.maximum(point - excess[count], 0)
    return nearest


def _above(mean: float, usual: Shares, texts: int, below: bool = False) -> float:
    """The probability that so many texts of a domain have as high a mean, or as low a one.

    The domain counts as if it had one example more, at the far end: where all validation examples are alike, one that
    is not would be proof of anything.
    """
    count, end = usual.examples + 1, 0.0 if below else 1.0
    centre = usual.mean + (end - usual.mean) / count
    variance = (usual.variance * (count - 2) + (end - usual.mean) ** 2 * (1 - 1 / count)) / (count - 1)
    error = math.sqrt(variance * (1 / texts + 1 / count))
    if error == 0:  # all are at that end already
        return 1.0
    higher = centre - mean if below else mean - centre
    return math.erfc(higher / error / math.sqrt(2)) / 2
