"""How far probabilities can be believed: expected calibration error, and the temperature that makes it small.

A model is calibrated if, of the answers that it gives with a probability of 80%, four out of five are right. Logits
divided by a temperature keep their order, so that no answer changes: only how sure it is.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

BINS = 15  # of equal width, from 0 to 1
STEPS = 200  # of Newton's method, at most; a dozen are usual
ENOUGH = 1e-12  # relative change of a step after which there is no other


@dataclass(frozen=True)
class Reliability:
    """Probabilities of answers, held against what was right."""

    examples: int
    accuracy: float
    confidence: float  # mean probability of the most probable label
    ece: float  # expected calibration error, out of 1
    nll: float  # mean negative log-likelihood of the right label


def reliability(logits: Tensor, labels: Tensor, temperature: float = 1.0) -> Reliability:
    """Of logits (examples, labels) and the numbers of the right labels (examples), at a temperature."""
    logs = (logits.double() / temperature).log_softmax(-1)
    answers = logits.argmax(-1)
    chosen = logs.gather(1, answers[:, None]).squeeze(1).exp()
    right = answers == labels
    return Reliability(
        len(labels),
        float(right.double().mean()),
        float(chosen.mean()),
        expected_calibration_error(chosen, right),
        float(-logs.gather(1, labels[:, None]).mean()),
    )


def expected_calibration_error(confidences: Tensor, right: Tensor, bins: int = BINS) -> float:
    """The mean distance, over bins of confidence weighted by their examples, of accuracy from mean confidence.

    A bin has its upper edge and not its lower one, as is usual.
    """
    places = (confidences.double() * bins).ceil().long().clamp(1, bins) - 1
    gaps = torch.zeros(bins, dtype=torch.double).index_add(0, places, right.double() - confidences.double())
    return float(gaps.abs().sum() / len(confidences))


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature at which logits (examples, labels) make the right labels (examples) the most probable.

    The likelihood is that of all examples and one thing more: a prior on the inverse temperature b, b - log b, which
    is the least at 1. It keeps the temperature away from zero where all examples are answered rightly, and weighs next
    to nothing beside hundreds of them. In b the whole is strictly convex, so that Newton's method, kept between bounds
    that close in, finds the only minimum.
    """
    scores = logits.double()
    scores = scores - scores.gather(1, labels[:, None])  # of the right label 0
    low, high, inverse = 0.0, torch.inf, 1.0
    for _ in range(STEPS):
        chances = (inverse * scores).softmax(-1)
        mean = (chances * scores).sum(-1)
        slope = float(mean.sum()) + 1 - 1 / inverse
        bend = float((chances * (scores - mean[:, None]).square()).sum()) + inverse**-2
        low, high = (low, inverse) if slope > 0 else (inverse, high)
        new = inverse - slope / bend
        if not low < new < high:
            new = (low + high) / 2 if high < torch.inf else 2 * inverse
        moved, inverse = abs(new - inverse), new
        if moved <= ENOUGH * inverse:
            break
    return 1 / inverse
