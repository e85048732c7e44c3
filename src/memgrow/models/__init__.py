"""What is learnt: classifiers of texts and of pairs of texts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memgrow.models.classifier import Classifier, PairClassifier, TextClassifier
from memgrow.models.encoder import TextEncoder
from memgrow.models.settings import ModelSettings

TASKS: dict[str, type[Classifier]] = {"text": TextClassifier, "pair": PairClassifier}


def rebuild(task: str, settings: ModelSettings, labels: int, shape: Mapping[str, Any]) -> Classifier:
    """A model of the given shape, its weights still to be filled in."""
    first, *further = shape["columns"]
    bare = TASKS[task](
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


__all__ = ["TASKS", "Classifier", "ModelSettings", "PairClassifier", "TextClassifier", "TextEncoder", "rebuild"]
