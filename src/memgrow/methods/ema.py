"""Exponential moving average of the weights (E): it is validated and kept in place of the last weights.

The average lives in the optimizer's state, beside Adam's moments, and is saved and resumed with them. Where a domain
has much to teach in few steps the average lags behind: with smooth="auto", validation may choose the last weights.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from memgrow.data.batches import Encoded
from memgrow.methods.average import Figure, choose_share
from memgrow.methods.base import FinishedDomain, Method, Weights, option
from memgrow.models import Model

MEAN = "mean"
SMOOTH = 0.999  # smooth="auto"
TOLERANCE = 1.0  # standard errors that validation of the average may be below that of the last weights
EPOCHS = 3  # the longest memory of the average: in a small domain a longer one would hardly leave the old weights


@dataclass(frozen=True)
class EMAOptions:
    smooth: float | Literal["auto"] = option(0.999, least=0, most=1, words=("auto",))
    # decay per step; auto: 0.999, or the last weights by validation


class EMA(Method):
    """From the second domain on: average = smooth * average + (1 - smooth) * weights after every step."""

    about = "a moving average of the weights is kept"
    Options: ClassVar[type] = EMAOptions
    options: EMAOptions
    finish_order = 0
    first_domain: ClassVar[bool] = False  # whether the first domain is averaged too

    def __init__(self, options: EMAOptions) -> None:
        super().__init__(options)
        self._later = False

    @property
    def smooth(self) -> float:
        if not self._later and not self.first_domain:
            return 0.0
        return SMOOTH if self.options.smooth == "auto" else self.options.smooth

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> None:
        self._later = old is not None

    @torch.no_grad()
    def after_step(self, model: Model, optimizer: torch.optim.Optimizer, batches: int) -> None:
        if not self.smooth:
            return
        smooth = min(self.smooth, 1 - 1 / (EPOCHS * batches))
        parameters = [p for group in optimizer.param_groups for p in group["params"] if optimizer.state.get(p)]
        known = [p for p in parameters if MEAN in optimizer.state[p]]
        if known:
            means = [optimizer.state[p][MEAN] for p in known]
            torch._foreach_lerp_(means, [p.detach() for p in known], 1 - smooth)
        for parameter in parameters:
            if MEAN not in optimizer.state[parameter]:
                optimizer.state[parameter][MEAN] = parameter.detach().clone()

    def evaluation_weights(self, model: Model, optimizer: torch.optim.Optimizer) -> Weights:
        found = ((name, optimizer.state.get(p, {}).get(MEAN)) for name, p in model.named_parameters())
        return {name: mean for name, mean in found if mean is not None}

    def warmup_epochs(self, batches: int) -> int:
        if not self.smooth:
            return 0
        return EPOCHS if self.smooth == 1 else min(EPOCHS, math.ceil(1 / ((1 - self.smooth) * batches)))

    @torch.no_grad()
    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        notes: dict[str, Any] = {"smooth": self.smooth}
        if self.options.smooth != "auto" or not self._later:
            return notes
        average, last = domain.evaluate([{}, domain.last_weights])
        figures = {1.0: Figure.of(average), 0.0: Figure.of(last)}  # by the share of the average
        if any(math.isfinite(one.mean) for one in figures.values()) and not choose_share(figures, TOLERANCE):
            for name, parameter in domain.model.named_parameters():
                parameter.copy_(domain.last_weights.get(name, parameter))
            return {**notes, "kept": "last", "validation_of_kept": last.score}
        return {**notes, "kept": "mean", "validation_of_kept": average.score}


class JointEMA(EMA):
    """The same for joint training, which has no earlier domains: the first and only domain is averaged."""

    first_domain = True
