"""Methods that hold on to the old weights: A goes part of the way back to them, L moves them by small steps only."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from memgrow.data.batches import Encoded
from memgrow.methods.plugin import MethodSettings, Parameters, Plugin, old_part
from memgrow.models import Model


class Averaging(Plugin):
    """A: once a domain has been learnt, new = keep * old + (1 - keep) * new wherever both exist."""

    reads = ("keep",)

    @torch.no_grad()
    def after_training(self, old: Model, new: Model) -> None:
        grown = dict(new.named_parameters())
        for name, before in old.named_parameters():
            old_part(grown[name], before.shape).lerp_(before.to(grown[name]), self.settings.keep)

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        return {"keep": self.settings.keep}


class SlowOldWeights(Plugin):
    """L: a lower rate for what is old, while new slots and words learn at the full one.

    Each step moves old entries by old_rate of what the optimiser says: for Adam the same as a lower rate.
    """

    reads = ("old_rate",)

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._were: dict[str, Tensor] = {}

    def before_domain(self, old: Model, ask: Callable[[], Tensor]) -> None:
        self.shapes = {name: tuple(parameter.shape) for name, parameter in old.named_parameters()}

    def before_step(self, parameters: Parameters) -> None:
        self._were = {
            name: self._old(name, p).detach().clone() for name, p in parameters.items() if name in self.shapes
        }

    @torch.no_grad()
    def after_step(self, parameters: Parameters) -> None:
        for name, before in self._were.items():
            old = self._old(name, parameters[name])
            old.copy_(torch.lerp(before, old, self.settings.old_rate))
        self._were = {}

    def _old(self, name: str, parameter: Tensor) -> Tensor:
        shape = self.shapes[name]
        return old_part(parameter, (*parameter.shape[: parameter.ndim - len(shape)], *shape))

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        return {"old_rate": self.settings.old_rate}

    def stacked(self, others: Sequence[Plugin]) -> "SlowOldWeights":
        return copy.copy(self)  # models of one shape had the same shapes before
