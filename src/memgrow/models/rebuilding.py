"""A responder of a known shape, for a saved one to be loaded into."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memgrow.models.responder import Responder
from memgrow.models.settings import ModelSettings


def rebuild_responder(settings: ModelSettings, shape: Mapping[str, Any]) -> Responder:
    """A responder of the given shape, its weights still to be filled in."""
    first, *further = shape["columns"]
    size = settings.hidden if settings.slot_size is None else settings.slot_size
    bare = Responder(replace(settings, hidden=first["hidden"], slots=0, slot_size=size), shape["words"])
    for column in (first, *further):
        if column is not first:
            bare.add_column(column["hidden"])
        for segment in column["slots"]:
            bare.grow(slots=segment["count"], domain=segment["domain"], quiet=float(segment["quiet"]))
    bare.settings = settings
    bare.encoder.settings = bare.decoder.settings = replace(settings, slot_size=size)
    return bare
