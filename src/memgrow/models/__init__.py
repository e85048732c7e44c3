"""The models: an encoder, and a model around it that classifies texts or pairs of texts, or replies to messages."""

from collections.abc import Mapping
from typing import Any

from memgrow.models.classifier import Classifier, PairClassifier, TextClassifier, tally_of
from memgrow.models.encoder import ENCODERS, Encoder, ModelSettings
from memgrow.models.model import Model, StepOutput, Tally
from memgrow.models.recurrent_encoder import RecurrentEncoder
from memgrow.models.responder import Responder

REPLY = "reply"
MODELS: dict[str, type[Model]] = {"text": TextClassifier, "pair": PairClassifier, REPLY: Responder}
TASKS = tuple(MODELS)


def build(task: str, settings: ModelSettings, words: int, labels: int = 0, domain: str | None = None) -> Model:
    """A new model for one of the TASKS."""
    return MODELS[task](settings.encoder(settings, words, domain), labels)


def rebuild(task: str, settings: ModelSettings, labels: int, shape: Mapping[str, Any]) -> Model:
    """A model of the given shape, its weights still to be filled in."""
    return MODELS[task](settings.encoder.rebuild(settings, shape), labels)


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
    "RecurrentEncoder",
    "Responder",
    "StepOutput",
    "Tally",
    "TextClassifier",
    "build",
    "rebuild",
    "tally_of",
]
