"""Synaptic intelligence (SI; Zenke, Poole and Ganguli, ICML 2017): weights are held by how much they lowered the loss.

Unlike EWC it needs no pass over the data: the importance of a weight is added up along the path of the training.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded
from memgrow.methods.base import FinishedDomain, old_part, option
from memgrow.methods.ewc import EWC
from memgrow.models import Model

PATH = "path"  # name of the submodule while a domain trains
DAMPING = 1e-3  # xi: the square of a move below which it counts as none


@dataclass(frozen=True)
class SIOptions:
    si_strength: float = option(1.0, least=0)  # weight of the penalty


class Path(nn.Module):
    """For each parameter the loss that it has taken away so far, as buffers: they are saved with the training."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        for number, parameter in enumerate(model.parameters()):
            self.register_buffer(str(number), torch.zeros_like(parameter))


class SynapticIntelligence(EWC):
    """Adds si_strength * sum of Omega (theta - center)^2, where the center is the weights after the last domain.

    Omega, which takes the place of EWC's Fisher diagonal, is the sum over domains of omega / (move^2 + xi), with
    omega = - sum over steps of gradient * step.
    """

    about = "the same, by how much each weight lowered the loss: synaptic intelligence (Zenke et al. 2017)"
    Options: ClassVar[type] = SIOptions
    needs_whole_batches = True

    def __init__(self, options: SIOptions) -> None:
        super().__init__(options)
        self._start: dict[str, Tensor] = {}  # of the domain
        self._before: dict[str, Tensor] = {}  # the step
        self._gradients: dict[str, Tensor] = {}  # of the step, before they are clipped
        self._hooks: list[Any] = []

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> None:
        def keep(parameter: Tensor, name: str) -> None:
            assert parameter.grad is not None
            self._gradients[name] = parameter.grad.clone()

        self._start = _copy(model)
        model.add_module(PATH, Path(model))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                hook = partial(keep, name=name)
                self._hooks.append(parameter.register_post_accumulate_grad_hook(hook))  # type: ignore[no-untyped-call]

    def loss(self, model: Model, batch: Batch, logits: Tensor | None) -> Tensor | None:
        self._before = _copy(model)
        return self.options.si_strength * self.distance(model) if self.fisher else None

    @torch.no_grad()
    def after_step(self, model: Model, optimizer: torch.optim.Optimizer, batches: int) -> None:
        for (name, parameter), path in zip(model.named_parameters(), model.get_submodule(PATH).buffers(), strict=True):
            if name not in self._gradients:
                continue
            before, gradient = self._before[name], self._gradients.pop(name)
            if name in self.fisher:  # without the penalty's part: the loss of the domain alone
                held = self.fisher[name]
                pull = 2 * self.options.si_strength * held * (old_part(before, held.shape) - self.center[name])
                old_part(gradient, held.shape).sub_(pull)
            path.addcmul_(gradient, parameter - before, value=-1)

    @torch.no_grad()
    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        model = domain.model
        for (name, weight), path in zip(model.named_parameters(), model.get_submodule(PATH).buffers(), strict=True):
            found = (path / ((weight - self._start[name]).square() + DAMPING)).clamp(min=0)
            if name in self.fisher:
                old_part(found, self.fisher[name].shape).add_(self.fisher[name])
            self.fisher[name] = found
        self.center, self._start, self._before = _copy(model), {}, {}
        while self._hooks:
            self._hooks.pop().remove()
        delattr(model, PATH)
        return {"si_strength": self.options.si_strength}


def _copy(model: Model) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
