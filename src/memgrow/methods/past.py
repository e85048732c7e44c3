"""What is remembered of earlier domains. Most methods remember nothing beyond the model itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from memgrow.batches import Encoded
from memgrow.errors import SettingsError
from memgrow.models import Classifier


@dataclass(frozen=True)
class MethodSettings:
    """Numbers that methods leave open."""

    slots: int | None = None  # new slots for each later domain; None: as many as the model began with
    quiet: float = 0.0  # let new slots in slowly: their logits start this much lower
    strength: float = 1000.0  # EWC: weight of the penalty
    fisher: str = "exact"  # EWC: exact, sampled or empirical
    fisher_examples: int = 1000  # EWC: at most so many of a domain's examples enter its Fisher

    def __post_init__(self) -> None:
        if self.fisher not in FISHERS:
            raise SettingsError(f"fisher {self.fisher!r} is not known; there are {', '.join(FISHERS)}")
        if self.slots is not None and self.slots < 1:
            raise SettingsError(f"a later domain gets at least 1 slot, not {self.slots}; method F adds none")
        if self.quiet < 0 or self.strength < 0 or self.fisher_examples < 1:
            raise SettingsError("quiet and strength must be 0 or more, and fisher_examples at least 1")


FISHERS = ("exact", "sampled", "empirical")


class Past:
    """Remembers nothing. Others add to the loss of a new domain, and take note when one has been learnt."""

    needs_every_domain: ClassVar[bool] = False  # so that it cannot be taken up later

    def __init__(self, settings: MethodSettings) -> None:
        self.settings = settings

    def penalty(self, model: Classifier) -> Tensor | None:
        """What is added to the loss of each batch."""
        return None

    def take_note(self, model: Classifier, data: Encoded, device: torch.device) -> dict[str, Any]:
        """Called when a domain has been learnt, its data still at hand; returns what the record should say."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """What is remembered, for the checkpoint."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
