"""The models: an encoder, and a model around it that classifies texts or pairs of texts, or replies to messages."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from memgrow.errors import ModelError
from memgrow.models.classifier import Classifier, PairClassifier, TextClassifier, tally_of
from memgrow.models.encoder import ENCODERS, Encoder, ModelSettings
from memgrow.models.model import Model, StepOutput, Tally
from memgrow.models.pretrained.encoder import PretrainedEncoder
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.models.pretrained.settings import CELL, PretrainedSettings
from memgrow.models.recurrent_encoder import RecurrentEncoder
from memgrow.models.responder import Responder

REPLY = "reply"
MODELS: dict[str, type[Model]] = {"text": TextClassifier, "pair": PairClassifier, REPLY: Responder}
TASKS = tuple(MODELS)


def described(settings: ModelSettings) -> dict[str, Any]:
    """Settings as JSON; one that is newer than the format is left out at its default, so that older ones read it."""
    newer = ("lowercase",)
    return {name: value for name, value in asdict(settings).items() if name not in newer or value}


def settings_from(values: Mapping[str, Any]) -> ModelSettings:
    """The settings that `described` made JSON of."""
    values = dict(values)
    if values.pop("domains_read", 0):
        raise ModelError("this model reads the nearest domains alone (domains_read), which only memgrow 0.2 can do")
    return (PretrainedSettings if values["cell"] == CELL else ModelSettings)(**values)


def build(
    task: str,
    settings: ModelSettings,
    words: int,
    labels: int = 0,
    domain: str | None = None,
    files: EncoderFiles | None = None,
) -> Model:
    """A new model for one of the TASKS."""
    return _around(settings.kind.create(settings, words, domain, files), task, labels)


def rebuild(
    task: str, settings: ModelSettings, labels: int, shape: Mapping[str, Any], files: EncoderFiles | None = None
) -> Model:
    """A model of the given shape, its weights still to be filled in."""
    model = _around(settings.kind.rebuild(settings, shape, files), task, labels)
    if isinstance(model, Classifier) and "labels" in shape:
        model.came_together(shape["labels"])
    return model


def _around(encoder: Encoder, task: str, labels: int) -> Model:
    """The model of a task; a pair that the encoder reads as one text needs nothing but a classifier of texts."""
    return MODELS["text" if task == "pair" and encoder.reads_pairs_as_one else task](encoder, labels)


__all__ = [
    "ENCODERS",
    "MODELS",
    "REPLY",
    "TASKS",
    "Classifier",
    "Encoder",
    "Model",
    "ModelSettings",
    "PairClassifier",
    "PretrainedEncoder",
    "PretrainedSettings",
    "RecurrentEncoder",
    "Responder",
    "StepOutput",
    "Tally",
    "TextClassifier",
    "build",
    "described",
    "rebuild",
    "settings_from",
    "tally_of",
]
