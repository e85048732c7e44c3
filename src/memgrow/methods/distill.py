"""Distillation (D): the old model's outputs on the new domain's texts are kept.

This is learning without forgetting (LwF; Li and Hoiem, ECCV 2016) with one head for all domains. `entropy` adds the
maximum-entropy regularization of Kim et al. (2019), which makes the outputs of a domain less confident.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.data.batches import Batch, Encoded
from memgrow.methods.base import FinishedDomain, Method, option
from memgrow.models import Classifier, Model


@dataclass(frozen=True)
class DistillOptions:
    distil: float = option(1.0, least=0)  # weight of the old model's outputs
    temperature: float = option(2.0, above=0)  # of both models' outputs
    entropy: float = option(0.0, least=0)  # weight of the new outputs' entropy, which training raises


class Distillation(Method):
    """Adds distil * t^2 * KL(old outputs || new outputs), both at temperature t, and takes entropy * H(new outputs).

    The old model is asked once for all training examples. It has no logits for new labels, so that the new outputs are
    compared over the old labels alone.
    """

    about = "the old model's outputs on the new texts are kept: LwF (Li and Hoiem 2016)"
    Options: ClassVar[type] = DistillOptions
    options: DistillOptions
    tasks = ("text", "pair")

    def __init__(self, options: DistillOptions) -> None:
        super().__init__(options)
        self.targets: Tensor | None = None  # (examples, old labels)

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> None:
        self.targets = None
        if isinstance(old, Classifier):
            logits = old.logits(data.as_known_to(old.vocabulary_size)).to(model.device)
            self.targets = torch.softmax(logits / self.options.temperature, dim=-1)

    def loss(self, model: Model, batch: Batch, logits: Tensor | None) -> Tensor | None:
        if logits is None:
            return None
        logs = torch.log_softmax(logits, dim=-1)
        found = self.options.entropy * (logs.exp() * logs).sum(-1).mean()
        if self.targets is None:
            return found if self.options.entropy else None
        targets = self.targets[batch.examples]  # (B, old labels)
        outputs = torch.log_softmax(logits[:, : targets.shape[1]] / self.options.temperature, dim=-1)
        divergence = F.kl_div(outputs, targets, reduction="batchmean")
        return found + self.options.distil * self.options.temperature**2 * divergence

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        self.targets = None
        return {name: getattr(self.options, name) for name in ("distil", "temperature", "entropy")}
