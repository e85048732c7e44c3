"""The settings of training on a domain, and what they come to for so many rows."""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

from memgrow.data.values import take_plain_values
from memgrow.errors import SettingsError

AUTO: Literal["auto"] = "auto"
SCHEDULES = ("constant", "linear")
MOST = 2**31 - 1  # of whatever is counted: more is a mistake, and too much for some that count in 64 bits
TRIED, FEWEST = 500, 2  # patience: auto waits for so many validation answers, and so many epochs at least
WARMS_UP = 3  # the warm-up is at most all steps divided by this: few rows would else be over before it is
EPOCHS = 5  # epochs: auto
STEPS, WARMS_UP_LONGER = 150, 10  # but in a model's first domain so many steps at least, with a shorter warm-up then


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of training on a domain. Rate, batch and optimiser (Adam) are the paper's."""

    rate: float = 3e-4
    batch: int = 32
    epochs: int | Literal["auto"] = 20  # at most; see `settled`
    patience: int | Literal["auto"] = (
        2  # epochs without a better validation accuracy before training stops; see `waiting`
    )
    clip: float = 5.0  # largest norm of a gradient
    min_count: int = 1  # a word seen less often in a domain is not stored
    min_documents: int = 1  # a word that fewer documents of it have is not stored; defaults.py asks for more
    max_words: int = 400  # of a longer text the beginning is read
    new_rate: float | None = None  # of what no pretraining has seen: head, slots; None: the rate
    warm_up: int = 0  # steps in which the rates rise to what they are, at most a third of all: see `warm_up_steps`
    schedule: str = "constant"  # of the rates after that: constant, or linear to zero in the last epoch

    def __post_init__(self) -> None:
        take_plain_values(self)
        for name in ("batch", "epochs", "patience", "min_count", "max_words", "min_documents"):
            if (value := getattr(self, name)) == AUTO and name in ("epochs", "patience"):
                continue
            if value < 1:
                raise SettingsError(f"{name} must be at least 1, not {value}")
            if value > MOST:
                raise SettingsError(f"{name} must be at most {MOST:,}")
        for name in ("rate", "clip", "new_rate"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise SettingsError(f"{name} must be above 0, not {value}")
        for name in ("rate", "new_rate"):  # a clip may be infinite: then nothing is cut
            if (value := getattr(self, name)) is not None and not isfinite(value):
                raise SettingsError(f"{name} must be a finite number, not {value}")
        if self.warm_up < 0:
            raise SettingsError(f"warm_up must be 0 or more steps, not {self.warm_up}")
        if self.schedule not in SCHEDULES:
            raise SettingsError(f"schedule {self.schedule!r} is not known; there are {', '.join(SCHEDULES)}")

    @property
    def max_epochs(self) -> int:
        """The epochs at most; of `auto`, those of a training that is not made longer."""
        return EPOCHS if self.epochs == AUTO else self.epochs

    def epochs_for(self, batches: int, first: bool) -> int:
        """The epochs at most, with so many batches in each, of a model that begins (`first`) or has learnt before.

        auto: five or, of a model that begins, as many as have 150 steps. With few rows five are over before it has
        learnt anything, and it has nothing to forget.
        """
        longer = first and self.epochs == AUTO and batches  # a domain without rows is refused elsewhere
        return max(self.max_epochs, -(-STEPS // batches)) if longer else self.max_epochs

    def resolve(self, batches: int, validation: int, first: bool) -> "TrainingSettings":
        """The settings of one training, whose epochs are a number; see `epochs_for`.

        What `auto` makes longer warms up for a tenth of its steps at most, and waits as long as patience `auto` at
        least, with that many examples to validate on.
        """
        epochs = self.epochs_for(batches, first)
        if epochs == self.max_epochs:
            return replace(self, epochs=epochs)
        waits = max(self.patience_for(validation), replace(self, patience=AUTO).patience_for(validation))
        warm_up = min(self.warm_up, epochs * batches // WARMS_UP_LONGER)
        return replace(self, epochs=epochs, warm_up=warm_up, patience=waits)

    def patience_for(self, validation: int) -> int:
        """The epochs without a better accuracy on so many validation examples, before training stops.

        auto: as many as have 500 validation answers between them, and two at least. A single example decides little:
        on sixty, an epoch that learns one answer in a hundred often looks no better than the one before.
        """
        return max(FEWEST, -(-TRIED // max(validation, 1))) if self.patience == AUTO else self.patience

    @property
    def one_rate(self) -> bool:
        """Whether all parameters move at one rate from first to last."""
        return self.new_rate is None and not self.warm_up and self.schedule == "constant"

    def warm_up_steps(self, batches: int) -> int:
        """The steps in which the rates rise, when epochs have that many: a third of all that there can be, at most."""
        return min(self.warm_up, self.max_epochs * batches // WARMS_UP)

    def rate_factor(self, step: int, batches: int) -> float:
        """The share of its rate at which a parameter moves in a step, counted from 0, when epochs have that many."""
        rising = min(1.0, (step + 1) / (self.warm_up_steps(batches) + 1))
        if self.schedule == "constant":
            return rising
        return rising * (1 - step / (self.max_epochs * batches))
