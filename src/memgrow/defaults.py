"""What a learner takes where nobody says: a method and settings, for a recurrent network or a pretrained encoder."""

from dataclasses import dataclass, field
from pathlib import Path

from memgrow.methods import RECOMMENDED, MethodSettings
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.loop import TrainingSettings


@dataclass(frozen=True)
class Defaults:
    """A method and its settings."""

    method: str = RECOMMENDED
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    options: MethodSettings = field(default_factory=MethodSettings)


# A pretrained encoder moves little and soon: a low rate that falls to zero, five epochs at most. Its head is new.
FINE_TUNING = TrainingSettings(
    rate=5e-5, new_rate=1e-3, warm_up=50, schedule="linear", epochs=5, max_words=256, clip=1.0
)


# What a user's own data is learnt with: a word that one document alone has, as names and numbers are, is not stored.
RECURRENT = TrainingSettings(min_documents=2)


def defaults_for(model: ModelSettings | str | Path | None) -> Defaults:
    """The defaults for a model's settings or for a pretrained encoder; with neither, for a recurrent network."""
    if isinstance(model, str | Path):
        model = PretrainedSettings(encoder=str(model))
    if isinstance(model, PretrainedSettings):
        return Defaults("F+A", model, FINE_TUNING, MethodSettings(keep="auto", fisher_examples=200))
    return Defaults(model=model or ModelSettings(), training=RECURRENT)
