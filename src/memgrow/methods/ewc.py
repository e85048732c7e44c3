"""Elastic weight consolidation (EWC; Kirkpatrick et al., PNAS 2017), and incremental moment matching by mode.

EWC pulls weights that mattered to earlier domains back to where they were. `ModeIMM` (Lee et al., NeurIPS 2017) merges
domains by the same Fisher information: the weights after each one are a Gaussian around what was learned, and the model
gets the mode of the product of all of them. The paper's merging by mean is the addition `average`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from memgrow.data.batches import Batch, Encoded, collate
from memgrow.methods.base import FinishedDomain, Method, Weights, old_part, option
from memgrow.models import Model


@dataclass(frozen=True)
class FisherOptions:
    fisher: str = option("exact", words=("exact", "sampled", "empirical"))
    fisher_examples: int = option(1000, least=1)  # examples of a domain that its Fisher is computed on, at most


@dataclass(frozen=True)
class EWCOptions(FisherOptions):
    strength: float = option(1000.0, least=0)  # weight of the penalty


def fisher_diagonal(model: Model, data: Encoded, variant: str) -> dict[str, Tensor]:
    """The diagonal of the Fisher information of each trainable parameter: the mean squared gradient per example.

    exact: expectation over the model's own output distribution; sampled: one label drawn from it; empirical: the given
    labels. For replies it is always the given ones.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    model.eval()
    for index in range(len(data)):
        for likelihood, weight in model.likelihoods(collate(data, [index], model.device), variant):
            gradients = torch.autograd.grad(
                likelihood, list(parameters.values()), retain_graph=True, materialize_grads=True
            )
            torch._foreach_addcmul_(list(total.values()), gradients, gradients, value=weight)
    return {name: value / max(len(data), 1) for name, value in total.items()}


class EWC(Method):
    """Adds strength/2 * sum over earlier domains k of F_k (theta - theta_k)^2.

    A sum of parabolas is one parabola, up to a constant: with F = sum F_k, around the center sum F_k theta_k / F. So
    any number of domains needs the memory of one, and nothing is approximated.
    """

    about = "fine-tune, with a penalty on moving weights that mattered before (Kirkpatrick et al. 2017)"
    Options: ClassVar[type] = EWCOptions
    options: Any
    needs_every_domain = True
    finish_order = 2

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.fisher: dict[str, Tensor] = {}
        self.center: dict[str, Tensor] = {}

    def loss(self, model: Model, batch: Batch, logits: Tensor | None) -> Tensor | None:
        return self.options.strength / 2 * self.distance(model) if self.fisher else None

    def distance(self, model: Model) -> Tensor:
        """From the center, squared and weighted."""
        parameters = dict(model.named_parameters())
        terms = [
            (fisher * (old_part(parameters[name], fisher.shape) - self.center[name]) ** 2).sum()
            for name, fisher in self.fisher.items()
        ]
        return torch.stack(terms).sum()

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        variant = domain.model.only_fisher_variant or self.options.fisher
        chosen = torch.randperm(len(domain.data))[: self.options.fisher_examples].tolist()
        self._add(domain.model, fisher_diagonal(domain.model, domain.data.some(chosen), variant))
        return {"fisher": variant, "fisher_examples": len(chosen), "strength": self.options.strength}

    def _add(self, model: Model, diagonal: Weights) -> None:
        """Add the Fisher diagonal of a domain that the model has just learned."""
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        for name, new in diagonal.items():
            total, center = new.clone(), weights[name].clone()
            if name in self.fisher:  # rows of slots and words that have joined since have no Fisher yet
                old_part(total, self.fisher[name].shape).add_(self.fisher[name].to(new))
                old_part(center, self.center[name].shape).copy_(self.center[name])
            # The weighted mean, as a move from the old center: where no domain has any Fisher, the center stays.
            self.center[name] = center + torch.where(total > 0, new / total, 0) * (weights[name] - center)
            self.fisher[name] = total

    def state_dict(self) -> dict[str, Tensor]:
        parts = {"fisher": self.fisher, "centre": self.center}  # as the files of 0.1 spell it
        return {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        parts = {"fisher": self.fisher, "centre": self.center}
        for key, tensor in state.items():
            part, name = key.split("/", 1)
            parts[part][name] = tensor


class ModeIMM(EWC):
    """EWC's center is that mode: the weights move there after each domain, and no penalty holds them before."""

    about = "fine-tune, then merge the domains' weights by Fisher information: mode-IMM (Lee et al. 2017)"
    Options: ClassVar[type] = FisherOptions

    def loss(self, model: Model, batch: Batch, logits: Tensor | None) -> Tensor | None:
        return None

    @torch.no_grad()
    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        with torch.enable_grad():
            notes = super().finish_domain(domain)
        for name, parameter in domain.model.named_parameters():
            if name in self.center:
                parameter.copy_(self.center[name])
        return {name: notes[name] for name in ("fisher", "fisher_examples")}
