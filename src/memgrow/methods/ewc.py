"""Elastic weight consolidation: parameters that mattered to earlier domains are held where they were."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from memgrow.data.batches import Encoded, collate
from memgrow.methods.plugin import LearntDomain, MethodSettings, Parameters, Plugin, old_part
from memgrow.models import Model


def fisher_diagonal(model: Model, data: Encoded, variant: str, device: torch.device) -> dict[str, Tensor]:
    """One non-negative number for each parameter that trains, named as the model names it.

    exact: the expectation over the model's own answers; sampled: one answer drawn from them for each example;
    empirical: the given labels. Replies, of which there is no end, are always those given.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    model.eval()
    for index in range(len(data)):
        for likelihood, weight in model.likelihoods(collate(data, [index], device), variant):
            gradients = torch.autograd.grad(
                likelihood, list(parameters.values()), retain_graph=True, materialize_grads=True
            )
            torch._foreach_addcmul_(list(total.values()), gradients, gradients, value=weight)
    return {name: value / max(len(data), 1) for name, value in total.items()}


class ElasticWeights(Plugin):
    """The loss gains strength/2 * sum over earlier domains k of F_k (theta - theta_k)^2.

    A sum of such parabolas is one parabola, up to a constant: of width F = sum F_k around the centre
    sum F_k theta_k / F. So any number of domains takes the memory of one, and nothing is approximated.
    """

    needs_every_domain = True
    reads = ("strength", "fisher", "fisher_examples")
    reads_after_domain = ("fisher", "fisher_examples")

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.fisher: dict[str, Tensor] = {}
        self.centre: dict[str, Tensor] = {}

    def weight_loss(self, parameters: Parameters) -> Tensor | None:
        if not self.fisher:
            return None
        terms = [
            (fisher.to(p) * (old_part(p, fisher.shape) - self.centre[name].to(p)) ** 2).sum()
            for name, fisher in self.fisher.items()
            if (p := parameters.get(name)) is not None
        ]
        return self.settings.strength / 2 * torch.stack(terms).sum()

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        variant, chosen = model.fisher or self.settings.fisher, self._sample(len(data))
        self._absorb(model, fisher_diagonal(model, data.some(chosen), variant, device))
        return self._note(variant, len(chosen))

    @classmethod
    def after_domain_together(cls, plugins: Sequence[Plugin], domain: LearntDomain) -> list[dict[str, Any]]:
        parts = [cast(ElasticWeights, plugin) for plugin in plugins]
        chosen = []
        for number, part in enumerate(parts):
            with domain.seeded(number):
                chosen.append(part._sample(len(domain.data)))
        variant = parts[0].settings.fisher
        for part, model, diagonal in zip(parts, domain.models, domain.fisher(chosen, variant), strict=True):
            part._absorb(model, diagonal)
        return [part._note(variant, len(own)) for part, own in zip(parts, chosen, strict=True)]

    def _sample(self, examples: int) -> list[int]:
        """The numbers of the examples that enter the Fisher, drawn from this many."""
        chosen: list[int] = torch.randperm(examples)[: self.settings.fisher_examples].tolist()
        return chosen

    def _note(self, variant: str, examples: int) -> dict[str, Any]:
        return {"fisher": variant, "fisher_examples": examples, "strength": self.settings.strength}

    def _absorb(self, model: Model, diagonal: Parameters) -> None:
        """Take in the Fisher diagonal of a domain that the model has just learnt."""
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        for name, new in diagonal.items():
            total, centre = new.clone(), weights[name].clone()
            if name in self.fisher:  # slots and words that have joined since had no part in it
                old_part(total, self.fisher[name].shape).add_(self.fisher[name].to(new))
                old_part(centre, self.centre[name].shape).copy_(self.centre[name])
            # Written as a move from the old centre, so that a parameter that never mattered has one as well.
            self.centre[name] = centre + torch.where(total > 0, new / total, 0) * (weights[name] - centre)
            self.fisher[name] = total

    def stacked(self, others: Sequence[Plugin]) -> "ElasticWeights":
        new, parts = ElasticWeights(self.settings), [cast(ElasticWeights, other) for other in others]
        for what in ("fisher", "centre"):
            for name in self.fisher:
                getattr(new, what)[name] = torch.stack([getattr(part, what)[name] for part in parts])
        return new

    def tensors(self) -> dict[str, Tensor]:
        parts = {"fisher": self.fisher, "centre": self.centre}
        return {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        parts = {"fisher": self.fisher, "centre": self.centre}
        for key, tensor in tensors.items():
            part, name = key.split("/", 1)
            parts[part][name] = tensor

    def keep_rows(self, kept: Mapping[str, Tensor]) -> None:
        for name in self.fisher.keys() & kept.keys():
            rows = kept[name][kept[name] < len(self.fisher[name])]  # slots that joined later are not in it
            for part in (self.fisher, self.centre):
                part[name] = part[name][rows.to(part[name].device)]

    def fits(self, model: Model) -> bool:
        weights = dict(model.named_parameters())
        return self.fisher.keys() == self.centre.keys() <= weights.keys() and all(
            self.centre[name].shape == fisher.shape
            and fisher.ndim == weights[name].ndim
            and all(size <= now for size, now in zip(fisher.shape, weights[name].shape, strict=True))
            for name, fisher in self.fisher.items()
        )
