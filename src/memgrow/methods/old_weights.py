"""Methods that hold on to the old weights: A goes part of the way back to them, L moves them by small steps only."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from memgrow.data.batches import Encoded
from memgrow.methods.plugin import AUTO, Evaluate, MethodSettings, Parameters, Plugin, old_part
from memgrow.models import Model

SHARES = tuple(number / 20 for number in range(19))  # of the old weights, that are tried: 0, 0.05, ..., 0.9
TOLERANCE = 0.5  # standard errors that validation may fall below its best


class Figure(NamedTuple):
    """A mean over the validation set, of which more is better, and its standard error."""

    mean: float
    error: float


def choose_share(figures: Mapping[float, Figure], tolerance: float = TOLERANCE) -> float:
    """The largest share whose figure is within `tolerance` standard errors of the best; 0 if no figure is finite."""
    known = {share: figure for share, figure in figures.items() if math.isfinite(figure.mean)}
    if not known:
        return 0.0
    best = max(known.values())
    return max(share for share, figure in known.items() if figure.mean >= best.mean - tolerance * best.error)


class Choice(NamedTuple):
    """A share that was chosen, and the validation score of the weights that it leads to."""

    keep: float
    validation: float


class Averaging(Plugin):
    """A: once a domain has been learnt, new = keep * old + (1 - keep) * new wherever both exist.

    With keep: auto it goes back as far as the validation set of the new domain allows; no old data is needed.
    """

    reads = ("keep",)

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.choice: Choice | None = None  # for the domain that is being learnt

    def choose_weights(self, old: Model, new: Model, evaluate: Evaluate) -> None:
        if self.settings.keep == AUTO:
            tallies = dict(zip(SHARES, evaluate(mixtures(old, new, SHARES)), strict=True))
            keep = choose_share({share: Figure(one.mean, one.standard_error) for share, one in tallies.items()})
            self.choice = Choice(keep, tallies[keep].score)
        self.after_training(old, new)

    def after_training(self, old: Model, new: Model) -> None:
        keep = self.settings.keep if self.choice is None else self.choice.keep
        if keep != AUTO:
            go_back(_weights(old), _weights(new), keep)

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        if self.settings.keep != AUTO:
            return {"keep": self.settings.keep}
        choice, self.choice = self.choice, None
        if choice is None:  # the first domain: there is nothing to go back to
            return {}
        return {"keep": choice.keep, "keep_chosen": AUTO, "validation_after_averaging": choice.validation}

    def stacked(self, others: Sequence[Plugin]) -> "Averaging":
        return copy.copy(self)  # nothing is chosen while the stack trains


def go_back(old: Parameters, new: Parameters, share: float) -> None:
    """Move the new weights that far towards the old ones; what grew stays new."""
    for name, before in old.items() if share else ():
        now, before = old_part(new[name], before.shape), before.to(new[name])
        if not torch.equal(now, before):  # what was frozen is to keep its bits, and lerp makes 0.0 of -0.0
            now.lerp_(before, share)


def mixtures(old: Model, new: Model, shares: Sequence[float]) -> Iterator[Parameters]:
    """The new weights as they are after going back by each of the shares, one after another."""
    before, after = _weights(old), _weights(new)
    after = {name: after[name].clone() for name in before}  # the model's own may be moved meanwhile
    for share in shares:
        mixed = {name: weight.clone() for name, weight in after.items()}
        go_back(before, mixed, share)
        yield mixed


def _weights(model: Model) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


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
