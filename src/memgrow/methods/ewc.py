"""Elastic weight consolidation: parameters that mattered to earlier domains are held where they were."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from memgrow.batches import Encoded
from memgrow.methods.fisher import fisher_diagonal
from memgrow.methods.past import MethodSettings, Past
from memgrow.models import Classifier


class ElasticWeights(Past):
    """The loss gains strength/2 * sum over earlier domains k of F_k (theta - theta_k)^2.

    A sum of such parabolas is one parabola, up to a constant: of width F = sum F_k around the centre
    sum F_k theta_k / F. So any number of domains takes the memory of one, and nothing is approximated.
    """

    needs_every_domain = True

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.fisher: dict[str, Tensor] = {}
        self.centre: dict[str, Tensor] = {}

    def penalty(self, model: Classifier) -> Tensor | None:
        if not self.fisher:
            return None
        parameters = dict(model.named_parameters())
        terms = [
            (self.fisher[name].to(p) * (p - self.centre[name].to(p)) ** 2).sum()
            for name, p in parameters.items()
            if name in self.fisher
        ]
        return self.settings.strength / 2 * torch.stack(terms).sum()

    def take_note(self, model: Classifier, data: Encoded, device: torch.device) -> dict[str, Any]:
        count = min(len(data), self.settings.fisher_examples)
        chosen = torch.randperm(len(data))[:count].tolist()
        sample = data.some(chosen)
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        for name, new in fisher_diagonal(model, sample, self.settings.fisher, device).items():
            old = self.fisher.get(name, torch.zeros_like(new)).to(new)
            centre = self.centre.get(name, weights[name]).to(new)
            total = old + new
            # Written as a move from the old centre, so that a parameter that never mattered has one as well.
            self.centre[name] = centre + torch.where(total > 0, new / total, 0) * (weights[name] - centre)
            self.fisher[name] = total
        return {"fisher": self.settings.fisher, "fisher_examples": count, "strength": self.settings.strength}

    def tensors(self) -> dict[str, Tensor]:
        parts = {"fisher": self.fisher, "centre": self.centre}
        return {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for key, tensor in tensors.items():
            part, name = key.split("/", 1)
            getattr(self, part)[name] = tensor
