"""The models: an encoder, and a model around it that classifies texts or pairs of texts, or replies to messages."""

from memgrow.models.base import CausalSettings, Model, ModelSettings, PretrainedSettings, Tally, settings_from_json
from memgrow.models.causal import CausalModel
from memgrow.models.classifier import (
    REPLY,
    TASKS,
    Classifier,
    PairClassifier,
    build,
    check_numbers,
    rebuild,
)
from memgrow.models.recurrent import RecurrentEncoder
from memgrow.models.seq2seq import Responder
from memgrow.models.transformer import PretrainedEncoder

__all__ = [
    "REPLY",
    "TASKS",
    "CausalModel",
    "CausalSettings",
    "Classifier",
    "Model",
    "ModelSettings",
    "PairClassifier",
    "PretrainedEncoder",
    "PretrainedSettings",
    "RecurrentEncoder",
    "Responder",
    "Tally",
    "build",
    "check_numbers",
    "rebuild",
    "settings_from_json",
]
