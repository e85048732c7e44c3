"""Models from settings: new ones, and saved ones, whose configuration and weights must fit each other."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from memgrow.data.disk import Shapes
from memgrow.errors import ModelError, SettingsError
from memgrow.models.base import Encoder, Model
from memgrow.models.classifier import Classifier, PairClassifier, TextClassifier
from memgrow.models.domain_memory import DomainMemory
from memgrow.models.hub import EncoderFiles, check_sizes, unfit
from memgrow.models.recurrent import RecurrentEncoder
from memgrow.models.seq2seq import Responder
from memgrow.models.settings import ModelSettings, PretrainedSettings
from memgrow.models.transformer import PretrainedEncoder

REPLY = "reply"
TASKS = ("text", "pair", REPLY)


def build(
    task: str,
    settings: ModelSettings,
    words: int,
    labels: int = 0,
    domain: str | None = None,
    files: EncoderFiles | None = None,
) -> Model:
    """A new model for one of the TASKS."""
    encoder: Encoder
    if isinstance(settings, PretrainedSettings):
        assert files is not None
        encoder = PretrainedEncoder.create(settings, files, domain)
    else:
        encoder = RecurrentEncoder(settings, words, domain)
    return _around(encoder, task, labels)


def rebuild(
    task: str,
    settings: ModelSettings,
    labels: int,
    shape: Mapping[str, Any],
    *,
    files: EncoderFiles | None = None,
    stored: Shapes | None = None,
) -> Model:
    """A model of the given shape, its weights to be filled in; `stored` are the shapes of the weights it must have.

    A folder may come from anywhere: what is not plausible is refused before anything of its size is built.
    """
    if stored is None:
        return _rebuild(task, settings, labels, shape, files)
    if settings.layers > len(stored) or len(shape.get("columns", ())) > len(stored):
        raise unfit(f"more layers or columns than the {len(stored):,} tensors")
    for name, sizes in DomainMemory.sizes(shape.get("domain_memory", ())).items():
        if stored.get(name) != sizes:
            raise unfit(f"{name} is {stored.get(name, 'missing')} and should be {sizes}")
    if files is None:
        with torch.device("meta"):  # shapes alone, which takes milliseconds and no memory
            _check_shapes(_rebuild(task, settings, labels, shape, None), stored, exactly=True)
    else:
        check_sizes(json.loads(files.config), stored)
    model = _rebuild(task, settings, labels, shape, files)
    _check_shapes(model, stored)
    return model


def check_numbers(model: Model, stored: Mapping[str, Tensor]) -> None:
    """Refuse weights of another dtype than the model's, or that are not finite."""
    for name, own in model.state_dict().items():
        if name in stored and stored[name].dtype != own.dtype:
            raise unfit(f"{name} is of {stored[name].dtype} and should be of {own.dtype}")
    for name, _ in model.named_parameters():
        if name in stored and not _all_finite(stored[name]):
            raise ModelError(f"{name} has a weight that is not a finite number: go back to a saved model")


def _rebuild(
    task: str, settings: ModelSettings, labels: int, shape: Mapping[str, Any], files: EncoderFiles | None
) -> Model:
    encoder: Encoder
    if isinstance(settings, PretrainedSettings):
        assert files is not None
        encoder = PretrainedEncoder.rebuild(settings, files, shape)
    else:
        encoder = RecurrentEncoder.rebuild(settings, shape)
    model = _around(encoder, task, labels)
    if isinstance(model, Classifier) and "labels" in shape:
        model.label_blocks = shape["labels"]
    if isinstance(model, Classifier) and "domain_memory" in shape:
        model.memory = DomainMemory.restore(shape["domain_memory"])
    return model


def _around(encoder: Encoder, task: str, labels: int) -> Model:
    """The model of a task; a pair that the encoder reads as one text needs a classifier of texts."""
    if task == REPLY:
        return Responder(encoder)
    if task not in TASKS:
        raise SettingsError(f"unknown task {task!r}; choose one of {', '.join(TASKS)}")
    is_pair = task == "pair" and not encoder.settings.joins_pairs
    return (PairClassifier if is_pair else TextClassifier)(encoder, labels)


def _all_finite(tensor: Tensor) -> bool:
    """In one pass and without another tensor of that size."""
    return not tensor.numel() or all(bool(bound.isfinite()) for bound in torch.aminmax(tensor.detach()))


def _check_shapes(model: Model, stored: Shapes, exactly: bool = False) -> None:
    """Refuse weights that are not those of the model; `exactly`: also one that is too many."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name, sizes in expected.items():
        if stored.get(name) != sizes:
            raise unfit(f"{name} is {stored.get(name, 'missing')} and should be {sizes}")
    if exactly and (more := sorted(stored.keys() - expected.keys())):
        raise unfit(f"{more[0]} is unexpected")
