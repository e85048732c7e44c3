"""Incremental moment matching by mode (Lee et al., NeurIPS 2017): domains are merged by their Fisher information.

The weights after each domain are a Gaussian around what was learned, with the Fisher diagonal as its precision. The
model gets the mode of the product of all of them. The paper's merging by mean is the addition `average`.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from memgrow.data.batches import Batch
from memgrow.methods.base import FinishedDomain
from memgrow.methods.ewc import EWC, FisherOptions
from memgrow.models import Model


class ModeIMM(EWC):
    """EWC's center is that mode: the weights move there after each domain, and no penalty holds them before."""

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
