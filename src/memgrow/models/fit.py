"""Whether a configuration and the weights beside it belong together, before anything of their size is built.

A model's folder may come from anywhere. Its configuration says how many layers, columns and slots to build; the header
of its weights says how many tensors there are, and of which shapes.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from memgrow.data.disk import Shapes
from memgrow.errors import ModelError
from memgrow.models.model import Model
from memgrow.models.pretrained.files import EncoderFiles, check_sizes, unfit

MOST_SEGMENTS = 4096  # of a bank, each added by a domain: more of them than anybody has taught a model


def build_fitting(
    build: Callable[[], Model],
    settings: Mapping[str, Any],
    shape: Mapping[str, Any],
    files: EncoderFiles | None,
    stored: Shapes,
) -> Model:
    """The model that `build` makes of settings and shape, if its weights are the stored ones by name and size."""
    _check_counts(settings, shape, stored)
    if files is None:
        # Shapes alone, which takes milliseconds and no memory; an encoder from outside may need more than that.
        with torch.device("meta"), suppress(NotImplementedError, RuntimeError):
            check_fits(build(), stored, exactly=True)
    else:
        check_sizes(json.loads(files.config), stored)
    model = build()
    check_fits(model, stored)
    return model


def check_numbers(model: Model, stored: Mapping[str, Tensor]) -> None:
    """Refuse weights that are of another kind of number than the model's, or are not finite: no such model is saved."""
    for name, own in model.state_dict().items():
        if name in stored and stored[name].dtype != own.dtype:
            raise unfit(f"{name} is of {stored[name].dtype} and should be of {own.dtype}")
    for name, _ in model.named_parameters():
        if name in stored and not all_finite(stored[name]):
            raise ModelError(f"{name} has a weight that is no finite number: go back to a saved model")


def all_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite, in one pass and without another tensor of that size."""
    return not tensor.numel() or all(bool(bound.isfinite()) for bound in torch.aminmax(tensor.detach()))


def check_fits(model: Model, stored: Shapes, exactly: bool = False) -> None:
    """Refuse weights that are not those of the model, with the first that differs; `exactly`: or is one too many."""
    asked = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name, sizes in asked.items():
        if name not in stored:
            raise unfit(f"{name} is missing")
        if stored[name] != sizes:
            raise unfit(f"{name} is {_size(stored[name])} and should be {_size(sizes)}")
    if exactly and (more := sorted(stored.keys() - asked.keys())):
        raise unfit(f"{more[0]} is one too many")


def _check_counts(settings: Mapping[str, Any], shape: Mapping[str, Any], stored: Shapes) -> None:
    layers = settings.get("layers", 1)
    if isinstance(layers, int) and layers > len(stored):
        raise unfit(f"there are {layers:,} layers for {len(stored):,} tensors")
    for parts in _lists(shape):
        if len(parts) > MOST_SEGMENTS:
            raise ModelError(
                f"config.json tells of {len(parts):,} growths of one bank, and at most {MOST_SEGMENTS:,} can be: "
                "copy the model again, or go back to a saved one"
            )
    columns = shape.get("columns", ())
    if len(columns) > len(stored):
        raise unfit(f"there are {len(columns):,} columns for {len(stored):,} tensors")


def _lists(value: Any) -> Iterator[list[Any]]:
    """All lists in a value of JSON."""
    if isinstance(value, list):
        yield value
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _lists(part)


def _size(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes)) or "one number"
