"""What a learner takes where nobody says: a method and settings, for a recurrent network or a pretrained encoder."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from memgrow.errors import counted
from memgrow.methods import RECOMMENDED, RECOMMENDED_FOR_ENCODERS, RECOMMENDED_FOR_REPLIES, MethodSettings
from memgrow.methods.plugin import AUTO
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.settings import STEPS, TrainingSettings


@dataclass(frozen=True)
class Defaults:
    """A method and its settings."""

    method: str = RECOMMENDED
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    options: MethodSettings = field(default_factory=MethodSettings)
    suits: str = ""  # what it was chosen for


# A pretrained encoder moves little and soon: a low rate that falls to zero, five epochs at most. Its head is new.
# What the studies were made with; a user's first domain of few rows takes longer (`defaults_for`).
FINE_TUNING = TrainingSettings(
    rate=5e-5, new_rate=1e-3, warm_up=50, schedule="linear", epochs=5, max_words=256, clip=1.0
)


# What a user's own data is learnt with: a word that one document alone has, as names and numbers are, is not stored.
# Patience minds how few validation examples there are: two epochs of sixty are over before training has begun.
RECURRENT = TrainingSettings(min_documents=2, patience="auto")

# Capitals are no other words: a text in capitals, or a word at the beginning of a sentence, is read as any other.
READS_LOWER = ModelSettings(lowercase=True)

# As in the recipes small and small-dialogue: a thousand texts take a minute or two on two cores.
SMALL = Defaults(
    model=replace(READS_LOWER, embedding=50, hidden=64, slots=64, perceptron=64),
    training=replace(RECURRENT, rate=1e-3, epochs=15),
    suits="for a CPU, those of the recipe small",
)
SMALL_REPLIES = Defaults(
    method=RECOMMENDED_FOR_REPLIES,
    model=replace(READS_LOWER, cell="gru", embedding=64, hidden=128, slots=64, bidirectional=False),
    training=replace(RECURRENT, rate=2e-3, epochs=15),
    suits="for a CPU, those of the recipe small-dialogue",
)
THE_PAPERS = Defaults(model=READS_LOWER, training=RECURRENT, suits="for a GPU, the paper's")
THE_PAPERS_REPLIES = replace(THE_PAPERS, method=RECOMMENDED_FOR_REPLIES)


def defaults_for(model: ModelSettings | str | Path | None, replies: bool = False) -> Defaults:
    """The defaults for a model's settings or for a pretrained encoder; with neither, for a recurrent network."""
    if isinstance(model, str | Path):
        model = PretrainedSettings(encoder=str(model))
    if isinstance(model, PretrainedSettings):
        options = MethodSettings(smooth="auto", keep="auto", fisher_examples=200)  # of E, and for who takes A or EWC
        return Defaults(RECOMMENDED_FOR_ENCODERS, model, replace(FINE_TUNING, epochs="auto"), options)
    method = RECOMMENDED_FOR_REPLIES if replies else RECOMMENDED
    return Defaults(method, model or READS_LOWER, RECURRENT)


def defaults_here(device: torch.device, replies: bool = False) -> Defaults:
    """What a new recurrent network has if nobody names any of its sizes: they suit the device that it is trained on."""
    labelled, replying = (THE_PAPERS, THE_PAPERS_REPLIES) if device.type == "cuda" else (SMALL, SMALL_REPLIES)
    return replying if replies else labelled


def sizes_line(usual: Defaults, model: ModelSettings, training: TrainingSettings) -> str:
    """Which sizes a new model has where nobody named all of them."""
    suits = usual.suits or "of the recipe"
    if usual.suits and (model, training) != (usual.model, usual.training):
        suits += ", but for what is set"
    return (
        f"Sizes {suits}: embedding {model.embedding}, hidden {model.hidden}, slots {model.slots}, "
        f"{training_line(training)}"
    )


def training_line(training: TrainingSettings) -> str:
    """Rate, batch and epochs in a few words."""
    epochs = counted(training.most_epochs, "epoch")
    longer = f" (a model's first domain: {STEPS} steps at least)" if training.epochs == AUTO else ""
    return f"rate {training.rate:g}, batch {training.batch}, at most {epochs}{longer}"
