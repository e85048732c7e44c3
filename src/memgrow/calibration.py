"""The calibration of a learner's probabilities: a temperature, and figures of each domain on its validation examples.

The temperature is fitted at the end of each stage on the validation examples of that stage, as those of earlier domains
are gone; for a method that sees all domains together they are those of all. Where there are earlier domains it is never
below 1: a model that has forgotten some of them is too sure there already, and nothing at hand would tell. The figures
of a domain are of the model and the temperature as they were when it was learnt.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from memgrow.kinds import wrong_part
from memgrow.metrics.calibration import Reliability, fit_temperature, reliability
from memgrow.storage import finite


@dataclass(frozen=True)
class DomainCalibration:
    """The validation examples of a domain, as the model answered them when it had learnt it."""

    stage: int  # counted from 1
    temperature: float  # that was fitted in this stage
    before: Reliability  # at temperature 1
    after: Reliability


@dataclass(frozen=True)
class Calibration:
    """The temperature that logits are divided by, and what it is known to be good for."""

    temperature: float = 1.0
    domains: Mapping[str, DomainCalibration] = field(default_factory=dict)  # none: nothing is known

    def of_domain(self, name: str) -> "Calibration":
        """The same with the temperature as it was when a domain had been learnt, if that is known."""
        return replace(self, temperature=self.domains[name].temperature if name in self.domains else 1.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Calibration":
        """Read it; where it does not make sense, an error of those that any value may raise, or a ValueError."""
        domains = {
            name: DomainCalibration(
                **{**one, "before": Reliability(**one["before"]), "after": Reliability(**one["after"])}
            )
            for name, one in value["domains"].items()
        }
        temperature = value["temperature"]
        if not (isinstance(temperature, float) and temperature > 0):
            raise ValueError("the temperature is no number above 0")
        made = cls(temperature, domains)
        if (wrong := wrong_part(made, cls, "calibration")) is not None:  # first: a stranger's lists may be endless
            raise ValueError(f"{wrong} is of another kind")
        if finite(made.to_json()) != made.to_json():
            raise ValueError("there is a number that is not finite")
        return made


def calibrate(
    logits: Tensor, labels: Tensor, parts: Mapping[str, int], before: Calibration, learnt: Collection[str], stage: int
) -> Calibration:
    """Fit the temperature on the validation examples of a stage: so many of each domain, one domain after another.

    `learnt` are all domains that have been learnt by now.
    """
    temperature = fit_temperature(logits, labels)
    if set(learnt) - set(parts):
        temperature = max(1.0, temperature)
    found: dict[str, DomainCalibration] = {}
    sizes = list(parts.values())
    for name, scores, answers in zip(parts, torch.split(logits, sizes), torch.split(labels, sizes), strict=True):
        figures = [reliability(scores, answers, one) for one in (1.0, temperature)]
        found[name] = DomainCalibration(stage, temperature, *figures)
    return Calibration(temperature, {**before.domains, **found})
