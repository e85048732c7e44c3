"""A: when a domain has been learnt, go part of the way back to the old weights, wherever both exist."""

from typing import Any

import torch

from memgrow.data.batches import Encoded
from memgrow.methods.plugin import Plugin, old_part
from memgrow.models import Model


class Averaging(Plugin):
    """new = keep * old + (1 - keep) * new. Slots and words that joined stay as they were learnt."""

    reads = ("keep",)

    @torch.no_grad()
    def after_training(self, old: Model, new: Model) -> None:
        grown = dict(new.named_parameters())
        for name, before in old.named_parameters():
            old_part(grown[name], before.shape).lerp_(before.to(grown[name]), self.settings.keep)

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        return {"keep": self.settings.keep}
