"""Default methods and settings, for a recurrent network and for a pretrained encoder."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from memgrow.errors import counted
from memgrow.methods import RECOMMENDED, RECOMMENDED_FOR_ENCODERS, RECOMMENDED_FOR_REPLIES, MethodSettings
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.settings import AUTO, AUTO_STEPS, TrainingSettings
from memgrow.training.state import LearnerConfig


@dataclass(frozen=True)
class Defaults:
    """A method and its settings."""

    method: str = RECOMMENDED
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    options: MethodSettings = field(default_factory=MethodSettings)
    suits: str = ""  # what it was chosen for


# A pretrained encoder: a low rate that falls to zero, at most five epochs. A first domain with few rows trains longer
# (`defaults_for`).
FINE_TUNING = TrainingSettings(
    rate=5e-5, new_rate=1e-3, warm_up=50, schedule="linear", epochs=5, max_words=256, clip=1.0
)


# A recurrent network: words found in a single document, such as names and numbers, are not stored. Patience depends on
# the number of validation examples.
RECURRENT = TrainingSettings(min_documents=2, patience="auto")

LOWERCASE = ModelSettings(lowercase=True)

# A thousand texts take a minute or two on two cores.
SMALL = Defaults(
    model=replace(LOWERCASE, embedding=50, hidden=64, slots=64, perceptron=64),
    training=replace(RECURRENT, rate=1e-3, epochs=15),
    suits="for a CPU, those of the recipe small",
)
SMALL_REPLIES = Defaults(
    method=RECOMMENDED_FOR_REPLIES,
    model=replace(LOWERCASE, cell="gru", embedding=64, hidden=128, slots=64, bidirectional=False),
    training=replace(RECURRENT, rate=2e-3, epochs=15),
    suits="for a CPU, those of the recipe small-dialogue",
)
PAPER = Defaults(model=LOWERCASE, training=RECURRENT, suits="for a GPU, the paper's")
PAPER_REPLIES = replace(PAPER, method=RECOMMENDED_FOR_REPLIES)


def defaults_for(model: ModelSettings | str | Path | None, replies: bool = False) -> Defaults:
    """The defaults for a model's settings or for a pretrained encoder; with neither, for a recurrent network."""
    if isinstance(model, str | Path):
        model = PretrainedSettings(encoder=str(model))
    if isinstance(model, PretrainedSettings):
        options = MethodSettings(smooth="auto", keep="auto", fisher_examples=200)
        return Defaults(RECOMMENDED_FOR_ENCODERS, model, replace(FINE_TUNING, epochs="auto"), options)
    method = RECOMMENDED_FOR_REPLIES if replies else RECOMMENDED
    return Defaults(method, model or LOWERCASE, RECURRENT)


def defaults_for_device(device: torch.device, replies: bool = False) -> Defaults:
    """The defaults of a recurrent network whose sizes are not given: they suit the device."""
    labelled, replying = (PAPER, PAPER_REPLIES) if device.type == "cuda" else (SMALL, SMALL_REPLIES)
    return replying if replies else labelled


def sizes_line(usual: Defaults, model: ModelSettings, training: TrainingSettings) -> str:
    """One line that tells the sizes of a new model."""
    suits = usual.suits or "of the recipe"
    if usual.suits and (model, training) != (usual.model, usual.training):
        suits += ", but for what is set"
    return (
        f"Sizes {suits}: embedding {model.embedding}, hidden {model.hidden}, slots {model.slots}, "
        f"{training_line(training)}"
    )


def training_line(training: TrainingSettings) -> str:
    """Rate, batch and epochs in a few words."""
    epochs = counted(training.max_epochs, "epoch")
    longer = f" (a model's first domain: {AUTO_STEPS} steps at least)" if training.epochs == AUTO else ""
    return f"rate {training.rate:g}, batch {training.batch}, at most {epochs}{longer}"


def advice_for(config: LearnerConfig) -> str:
    """What may help a model that is no better than the majority-class baseline."""
    if config.method.closed_form:
        return "give it more rows"
    if config.model.is_pretrained:
        return "give it more rows, or another method or rate; with few rows try a new model with --method ridge"
    vectors = "" if config.vectors else " word vectors (--vectors),"
    return f"give it more rows,{vectors} more epochs (--set epochs=40), or a higher rate"
