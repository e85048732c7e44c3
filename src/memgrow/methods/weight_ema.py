"""E: what is evaluated and kept of a training is an exponential moving average of its weights, not the last of them.

The mean begins next to the old weights, after the first step, so that it also holds on to them for a while. It lives
in the optimiser's state, beside that one's own running means, and is saved and taken up again with them.

Where a domain has much to teach in few steps, the mean is still on its way when training ends. With smooth: auto the
new domain's validation set then decides for the last weights.
"""

import copy
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from memgrow.data.batches import Encoded
from memgrow.methods.old_weights import Figure, choose_share
from memgrow.methods.plugin import AUTO, WEIGHT, Evaluate, MethodSettings, OptimiserState, Parameters, Plugin
from memgrow.models import Model

MEAN = "mean"
SMOOTH = 0.999  # smooth: auto
TOLERANCE = 1.0  # standard errors that validation with the mean may be below that with the last weights
EPOCHS = 3  # that the mean looks back, at most: in a small domain a longer memory would hardly leave the old weights


class WeightEMA(Plugin):
    """Each step the mean keeps `smooth` of itself and takes the rest from the weights; from the second domain on."""

    reads = ("smooth",)

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self._met = False
        self._last: dict[str, Tensor] = {}  # with smooth: auto, of a training that has just ended
        self._chosen: dict[str, Any] = {}

    def before_domain(self, old: Model, ask: Callable[[], Tensor]) -> None:
        self._met = True

    @property
    def smooth(self) -> float:
        if not self._met:
            return 0.0
        return SMOOTH if self.settings.smooth == AUTO else self.settings.smooth

    @property
    def sees_every_step(self) -> bool:
        return self.smooth > 0

    def follow_weights(self, optimiser: torch.optim.Optimizer, batches: int) -> None:
        if self.smooth:
            follow(optimiser, self.smooth, batches)

    def evaluated_weights(self, optimiser: torch.optim.Optimizer, parameters: Parameters) -> Parameters:
        return {name: optimiser.state.get(p, {}).get(MEAN, p) for name, p in parameters.items()}

    def warm_up_epochs(self, batches: int) -> int:
        return warm_up(self.smooth, batches)

    @property
    def wants_after_steps(self) -> Collection[str]:
        return (WEIGHT,) if self.settings.smooth == AUTO and self._met else ()

    def after_steps(self, state: OptimiserState) -> None:
        self._last = {name: kinds[WEIGHT] for name, kinds in state.items()}

    @torch.no_grad()
    def choose_weights(self, old: Model, new: Model, evaluate: Evaluate) -> None:
        if not self._last:
            return
        tallies = dict(zip((1.0, 0.0), evaluate([{}, self._last]), strict=True))  # by the share of the mean
        figures = {share: Figure(one.mean, one.standard_error) for share, one in tallies.items()}
        share = choose_share(figures, TOLERANCE) if any(math.isfinite(one.mean) for one in figures.values()) else 1.0
        if not share:
            for name, parameter in new.named_parameters():
                parameter.copy_(self._last.get(name, parameter))
        self._chosen = {"kept": "mean" if share else "last", "validation_of_kept": tallies[share].score}
        self._last = {}

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        chosen, self._chosen = self._chosen, {}
        return {"smooth": self.smooth, **chosen}

    def stacked(self, others: Sequence[Plugin]) -> "WeightEMA":
        return copy.copy(self)  # all models of a stack are at the same domain


class WeightEMAFromTheFirst(WeightEMA):
    """The same for a method that starts anew with all domains at once."""

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self._met = True

    @property
    def wants_after_steps(self) -> Collection[str]:
        return ()  # nothing is chosen: a model that starts anew has no old weights that the mean would be near to


def warm_up(smooth: float, batches: int) -> int:
    """The number of epochs, of this many batches, that the mean looks back: early stopping counts from there on."""
    if not smooth:
        return 0
    return EPOCHS if smooth == 1 else min(EPOCHS, math.ceil(1 / ((1 - smooth) * batches)))


@torch.no_grad()
def follow(optimiser: torch.optim.Optimizer, smooth: float, batches: int) -> None:
    """Let the means follow the weights that a step has just moved; a first step begins them.

    `batches` is how many an epoch has.
    """
    smooth = min(smooth, 1 - 1 / (EPOCHS * batches))
    moved = _moved(optimiser)
    known = [(state[MEAN], p.detach()) for p, state in moved if MEAN in state]
    if known:
        torch._foreach_lerp_([mean for mean, _ in known], [p for _, p in known], 1 - smooth)
    for parameter, state in moved:
        if MEAN not in state:
            state[MEAN] = parameter.detach().clone()


def _moved(optimiser: torch.optim.Optimizer) -> list[tuple[Tensor, dict[str, Tensor]]]:
    """The parameters that have been moved at all, and what the optimiser knows of each."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    return [(p, optimiser.state[p]) for p in parameters if optimiser.state.get(p)]
