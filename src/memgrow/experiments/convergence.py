"""Retraining on everything, which a comparison is measured by, must have converged: more patience, and a word on it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from memgrow.data import Stream
from memgrow.errors import counted, listed
from memgrow.experiments.grid import Outcome
from memgrow.experiments.run import Run
from memgrow.training.settings import TrainingSettings

PATIENCE = 6  # epochs without a better one, at least, before a reference stops
LONGER = 2  # times as many epochs as the methods have, at most


def reference_training(training: TrainingSettings, stream: Stream) -> TrainingSettings:
    """The settings of a reference: it goes on until it has converged, where the methods may stop for want of time.

    Where rates fall to zero they do so in the last epoch, and training that ends with them has converged.
    """
    examples, validation = (sum(len(getattr(one, part)) for one in stream) for part in ("train", "validation"))
    training = training.settled(ceil(examples / training.batch), validation, first=True)
    if training.schedule != "constant":
        return replace(training, patience=training.most_epochs)
    waited = training.waiting(validation)
    return replace(training, patience=max(PATIENCE, waited), epochs=LONGER * training.most_epochs)


@dataclass(frozen=True)
class Convergence:
    """How the training of a reference ended, by seed."""

    method: str
    training: TrainingSettings
    best_epochs: Mapping[int, int]
    epochs: Mapping[int, int]  # trained

    @classmethod
    def of(cls, method: str, runs: Mapping[int, Run], outcome: Outcome) -> "Convergence | None":
        """Of the runs that were made; None if there is none."""
        made = {seed: outcome.records[run][-1].stage for seed, run in runs.items() if run in outcome.records}
        if not made:
            return None
        training = next(iter(runs.values())).training
        best, all_ = ({seed: getattr(one, name) for seed, one in made.items()} for name in ("best_epoch", "epochs"))
        return cls(method, training, best, all_)

    @property
    def unfinished(self) -> tuple[int, ...]:
        """The seeds that might have become better with more epochs."""
        if self.training.schedule != "constant":
            return ()
        last = (seed for seed, epochs in self.epochs.items() if epochs >= self.training.most_epochs)
        return tuple(seed for seed in last if self.epochs[seed] - self.best_epochs[seed] < self.patience)

    @property
    def patience(self) -> int:
        """Of a reference it is a number of epochs, whatever the methods wait for."""
        return self.training.patience if isinstance(self.training.patience, int) else PATIENCE

    def sentence(self) -> str:
        if self.unfinished:
            seeds, epochs = listed(map(str, self.unfinished)), self.training.most_epochs
            return (
                f"{self.method} had not converged after {counted(epochs, 'epoch')} (seed {seeds}): it may do better "
                f"than it is shown here; --set epochs={epochs} gives it twice as many"
            )
        return f"{self.method} converged at epoch {listed(map(str, self.best_epochs.values()))}"

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "converged": not self.unfinished,
            "best_epochs": dict(self.best_epochs),
            "epochs": dict(self.epochs),
            "patience": self.training.patience,
            "epochs_at_most": self.training.most_epochs,
        }
