"""Temperature scaling and expected calibration error.

The temperature is fitted at the end of each stage on that stage's validation examples. While earlier domains exist
whose data is gone, it is never below 1: a model that has forgotten some of them is already overconfident there.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from memgrow.data.disk import finite

BINS = 15  # of equal width, from 0 to 1
SHARPEST, STEPS = (1e-9, 1e9), 60  # inverse temperatures between which 60 bisections find twelve digits or more


@dataclass(frozen=True)
class Reliability:
    """How predicted probabilities compare with the right labels."""

    examples: int
    accuracy: float
    confidence: float  # mean probability of the predicted label
    ece: float  # expected calibration error, out of 1
    nll: float  # mean negative log-likelihood of the right label


def reliability(logits: Tensor, labels: Tensor, temperature: float = 1.0) -> Reliability:
    """From logits (examples, labels) and the indices of the right labels (examples)."""
    logs = (logits.double() / temperature).log_softmax(-1)
    predicted = logits.argmax(-1)
    confidences = logs.gather(1, predicted[:, None]).squeeze(1).exp()
    right = predicted == labels
    return Reliability(
        len(labels),
        float(right.double().mean()),
        float(confidences.mean()),
        expected_calibration_error(confidences, right),
        float(-logs.gather(1, labels[:, None]).mean()),
    )


def expected_calibration_error(confidences: Tensor, right: Tensor, bins: int = BINS) -> float:
    """The distance of accuracy from mean confidence, averaged over bins (upper edge included) by their examples."""
    indices = (confidences.double() * bins).ceil().long().clamp(1, bins) - 1
    gaps = torch.zeros(bins, dtype=torch.double).index_add(0, indices, right.double() - confidences.double())
    return float(gaps.abs().sum() / len(confidences))


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature with the highest likelihood of the right labels (examples) for logits (examples, labels).

    A prior b - log b on the inverse temperature b counts as one example: it keeps the temperature away from zero where
    all examples are right. In b the objective is strictly convex: bisection finds where its slope is zero.
    """
    scores = logits.double()
    scores = scores - scores.gather(1, labels[:, None])  # 0 for the right label
    low, high = SHARPEST
    for _ in range(STEPS):
        inverse = sqrt(low * high)
        slope = float(((inverse * scores).softmax(-1) * scores).sum()) + 1 - 1 / inverse
        low, high = (low, inverse) if slope > 0 else (inverse, high)
    return 1 / inverse


@dataclass(frozen=True)
class DomainCalibration:
    """Reliability on a domain's validation examples when it was learned."""

    stage: int  # counted from 1
    temperature: float  # fitted in this stage
    before: Reliability  # at temperature 1
    after: Reliability


@dataclass(frozen=True)
class Calibration:
    """The temperature that logits are divided by, and the figures of each domain; none: not calibrated."""

    temperature: float = 1.0
    domains: Mapping[str, DomainCalibration] = field(default_factory=dict)

    def of_domain(self, name: str) -> "Calibration":
        """The same with the temperature fitted when a domain was learned."""
        return replace(self, temperature=self.domains[name].temperature if name in self.domains else 1.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Calibration":
        """Read it; a ValueError, KeyError or TypeError where the file makes no sense."""
        domains = {
            name: DomainCalibration(
                one["stage"], one["temperature"], Reliability(**one["before"]), Reliability(**one["after"])
            )
            for name, one in value["domains"].items()
        }
        made = cls(value["temperature"], domains)
        if finite(value) != value or made.temperature <= 0:
            raise ValueError("a number is missing or out of range")
        return made


def calibrate(
    logits: Tensor,
    labels: Tensor,
    *,
    sizes: Mapping[str, int],
    before: Calibration,
    learned: Collection[str],
    stage: int,
) -> Calibration:
    """Fit the temperature on a stage's validation examples, `sizes` of each domain; `learned` are all domains."""
    temperature = fit_temperature(logits, labels)
    if set(learned) - set(sizes):
        temperature = max(1.0, temperature)
    found: dict[str, DomainCalibration] = {}
    parts = list(sizes.values())
    for name, scores, right in zip(sizes, torch.split(logits, parts), torch.split(labels, parts), strict=True):
        uncalibrated, calibrated = reliability(scores, right), reliability(scores, right, temperature)
        found[name] = DomainCalibration(stage, temperature, uncalibrated, calibrated)
    return Calibration(temperature, {**before.domains, **found})
