"""The models: an encoder, and a model around it that classifies texts or pairs of texts, or replies to messages."""

from memgrow.models.base import Encoder, Model, StepOutput, Tally
from memgrow.models.classifier import (
    REPLY,
    TASKS,
    Classifier,
    PairClassifier,
    TextClassifier,
    build,
    check_numbers,
    rebuild,
)
from memgrow.models.recurrent import RecurrentEncoder
from memgrow.models.seq2seq import Responder
from memgrow.models.settings import ModelSettings, PretrainedSettings, settings_from_json
from memgrow.models.transformer import PretrainedEncoder

__all__ = [
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
    "check_numbers",
    "rebuild",
    "settings_from_json",
]
