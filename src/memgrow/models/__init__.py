"""What is learnt: classifiers of texts and of pairs of texts, and responders to messages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memgrow.models.classifier import Classifier, PairClassifier, TextClassifier
from memgrow.models.encoder import TextEncoder
from memgrow.models.model import Model, Taught
from memgrow.models.rebuilding import rebuild_responder
from memgrow.models.responder import Responder
from memgrow.models.settings import ModelSettings

CLASSIFIERS: dict[str, type[Classifier]] = {"text": TextClassifier, "pair": PairClassifier}
REPLY = "reply"
TASKS = (*CLASSIFIERS, REPLY)


def build(task: str, settings: ModelSettings, words: int, labels: int, domain: str | None = None) -> Model:
    """A new model for one of the TASKS."""
    if task == REPLY:
        return Responder(settings, words, domain)
    return CLASSIFIERS[task](settings, words, labels, domain)


def rebuild(task: str, settings: ModelSettings, labels: int, shape: Mapping[str, Any]) -> Model:
    """A model of the given shape, its weights still to be filled in."""
    if task == REPLY:
        return rebuild_responder(settings, shape)
    first, *further = shape["columns"]
    bare = CLASSIFIERS[task](
        replace(settings, hidden=first["hidden"], slots=0, slot_size=_slot_size(settings)), shape["words"], labels
    )
    for column in (first, *further):
        if column is not first:
            bare.add_column(column["hidden"])
        for segment in column["slots"]:
            bare.encoder.newest.grow(slots=segment["count"], domain=segment["domain"], quiet=float(segment["quiet"]))
    bare.settings = bare.encoder.settings = settings
    return bare


def _slot_size(settings: ModelSettings) -> int:
    return settings.hidden if settings.slot_size is None else settings.slot_size


__all__ = [
    "REPLY",
    "TASKS",
    "Classifier",
    "Model",
    "ModelSettings",
    "PairClassifier",
    "Responder",
    "Taught",
    "TextClassifier",
    "TextEncoder",
    "build",
    "rebuild",
]
