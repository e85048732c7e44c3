"""D: learning without forgetting. The old model's answers to the new domain's texts are held on to."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.methods.plugin import MethodSettings, Past
from memgrow.models import Model


class Distilling(Past):
    """The loss gains distil * t^2 * KL(old answers || new answers), both softened by the temperature t.

    The old model never changes while a domain is learnt, so it is asked once for all examples.
    """

    reads = ("distil", "temperature")

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.answers: Tensor | None = None  # (..., examples, labels): softened, of the old model

    def meet(self, old: Model, ask: Callable[[], Tensor]) -> None:
        device = next(old.parameters()).device
        self.answers = torch.softmax(ask().to(device) / self.settings.temperature, dim=-1)

    def guidance(self, logits: Tensor, examples: Tensor) -> Tensor | None:
        if self.answers is None:
            return None
        asked = torch.take_along_dim(self.answers, examples.unsqueeze(-1), dim=-2)  # (..., B, labels)
        softened = torch.log_softmax(logits / self.settings.temperature, dim=-1)
        distance = F.kl_div(softened, asked, reduction="none").sum(-1).mean(-1)  # (...)
        return self.settings.distil * self.settings.temperature**2 * distance.sum()

    def settle(self, old: Model, new: Model) -> None:
        self.answers = None

    def note(self, examples: int) -> dict[str, Any]:
        return {"distil": self.settings.distil, "temperature": self.settings.temperature}

    def stacked(self, others: Sequence[Past]) -> "Distilling":
        new = Distilling(self.settings)
        if self.answers is not None:
            new.answers = torch.stack([cast(Tensor, cast(Distilling, other).answers) for other in others])
        return new
