"""The settings of training on a domain."""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

from memgrow.data.values import take_plain_values
from memgrow.errors import SettingsError

AUTO: Literal["auto"] = "auto"
SCHEDULES = ("constant", "linear")
LARGEST = 2**31 - 1
AUTO_EPOCHS, AUTO_STEPS = 5, 150  # epochs="auto": 5; a first domain, or one without known labels, 150 steps at least
AUTO_PATIENCE, VALIDATED = 2, 500  # patience="auto": epochs with 500 validation predictions in all, at least 2


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of training on a domain. The defaults, and Adam as the optimizer, are the paper's."""

    rate: float = 3e-4  # learning rate
    batch: int = 32
    epochs: int | Literal["auto"] = 20  # at most
    patience: int | Literal["auto"] = 2  # epochs without a better validation score before training stops
    clip: float = 5.0  # largest norm of the gradient
    min_count: int = 1  # words that occur less often in a domain are not stored
    min_documents: int = 1  # words that occur in fewer of its documents are not stored
    max_words: int = 400  # longer texts are cut off
    new_rate: float | None = None  # learning rate of parameters without pretraining; None: the same
    warm_up: int = 0  # steps in which the learning rates rise, at most a third of all
    schedule: str = "constant"  # of the learning rates after that: constant, or linear to zero

    def __post_init__(self) -> None:
        take_plain_values(self)
        for name in ("batch", "epochs", "patience", "min_count", "max_words", "min_documents"):
            value = getattr(self, name)
            if not (value == AUTO and name in ("epochs", "patience")) and not 1 <= value <= LARGEST:
                raise SettingsError(f"{name} must be at least 1 and at most {LARGEST:,}, not {value}")
        for name in ("rate", "clip", "new_rate"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and (isfinite(value) or name == "clip")):
                raise SettingsError(f"{name} must be above 0 and finite, not {value}")
        if self.warm_up < 0:
            raise SettingsError(f"warm_up must be 0 or more steps, not {self.warm_up}")
        if self.schedule not in SCHEDULES:
            raise SettingsError(f"schedule {self.schedule!r} is not known; there are {', '.join(SCHEDULES)}")

    @property
    def max_epochs(self) -> int:
        return AUTO_EPOCHS if self.epochs == AUTO else self.epochs

    def epochs_for(self, batches: int, first: bool) -> int:
        """The number of epochs, at most. With "auto" a domain whose labels are all new has at least 150 steps."""
        longer = first and self.epochs == AUTO and batches
        return max(self.max_epochs, -(-AUTO_STEPS // batches)) if longer else self.max_epochs

    def resolve(self, batches: int, validation: int, first: bool) -> "TrainingSettings":
        """The settings for a domain with so many batches and validation examples.

        Where "auto" adds epochs, the warm-up is at most a tenth of the steps, and patience at least that of "auto".
        """
        epochs = self.epochs_for(batches, first)
        if epochs == self.max_epochs:
            return replace(self, epochs=epochs)
        patience = max(self.patience_for(validation), replace(self, patience=AUTO).patience_for(validation))
        return replace(self, epochs=epochs, warm_up=min(self.warm_up, epochs * batches // 10), patience=patience)

    def patience_for(self, validation: int) -> int:
        """The patience with so many validation examples: "auto" waits longer where there are few."""
        return max(AUTO_PATIENCE, -(-VALIDATED // max(validation, 1))) if self.patience == AUTO else self.patience

    def warm_up_steps(self, batches: int) -> int:
        """The number of warm-up steps, at most a third of all steps."""
        return min(self.warm_up, self.max_epochs * batches // 3)

    def rate_factor(self, step: int, batches: int) -> float:
        """The factor of the learning rates in a step, counted from 0, where an epoch has so many batches."""
        rising = min(1.0, (step + 1) / (self.warm_up_steps(batches) + 1))
        if self.schedule == "constant":
            return rising
        return rising * (1 - step / (self.max_epochs * batches))
