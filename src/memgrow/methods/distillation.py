"""D: learning without forgetting. The old model's answers to the new domain's texts are held on to."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.data.batches import Encoded
from memgrow.methods.plugin import MethodSettings, Plugin
from memgrow.models import REPLY, Model


class Distillation(Plugin):
    """The loss gains distil * t^2 * KL(old answers || new answers), both softened by the temperature t.

    The old model never changes while a domain is learnt, so it is asked once for all examples. It knows nothing of
    labels that join with the domain: the new answers are compared as if there were the old labels alone.
    """

    reads = ("distil", "temperature")

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.answers: Tensor | None = None  # (..., examples, labels): softened, of the old model

    def refuses(self, task: str) -> str | None:
        return "D holds on to labels, and a model of replies has none; leave D out" if task == REPLY else None

    def before_domain(self, old: Model, ask: Callable[[], Tensor]) -> None:
        device = next(old.parameters()).device
        self.answers = torch.softmax(ask().to(device) / self.settings.temperature, dim=-1)

    def output_loss(self, logits: Tensor, examples: Tensor) -> Tensor | None:
        if self.answers is None:
            return None
        asked = torch.take_along_dim(self.answers, examples.unsqueeze(-1), dim=-2)  # (..., B, labels)
        old = logits[..., : asked.shape[-1]]  # new labels stand after the old ones
        softened = torch.log_softmax(old / self.settings.temperature, dim=-1)
        distance = F.kl_div(softened, asked, reduction="none").sum(-1).mean(-1)  # (...)
        return self.settings.distil * self.settings.temperature**2 * distance.sum()

    def after_training(self, old: Model, new: Model) -> None:
        self.answers = None

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        return {"distil": self.settings.distil, "temperature": self.settings.temperature}

    def stacked(self, others: Sequence[Plugin]) -> "Distillation":
        new = Distillation(self.settings)
        if self.answers is not None:
            new.answers = torch.stack([cast(Tensor, cast(Distillation, other).answers) for other in others])
        return new
