"""The format of a model's folder: the names of its files and what stands in each, from values and back to them.

A later format raises `FORMAT`, and turns the files of an older folder into its own in `checkpoint_files`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from memgrow.data import Example
from memgrow.data.batches import Tokenized, tokenize_examples
from memgrow.errors import MemgrowError, ModelError
from memgrow.history import History
from memgrow.methods import Method, MethodSettings, Plugins, find_method
from memgrow.models import Model, ModelSettings, rebuild
from memgrow.storage import MANIFEST, load_tensors, pack_json, pack_tensors, read_folder, write_folder
from memgrow.text import Vocabulary
from memgrow.training.loop import TrainingSettings

FORMAT = 1  # of a model's folder; a later one is refused
CONFIG = "config.json"  # settings and shape, by which the model is built anew
MODEL = "model.safetensors"  # its weights
VOCABULARY = "vocabulary.json"
HISTORY = "history.json"
REMEMBERED = "remembered.safetensors"  # by the method's plugins, if they remember anything
SIGNS = {MANIFEST, CONFIG, MODEL}  # a folder with any of these is a model, be it half copied


@dataclass(frozen=True)
class Setup:
    """The method and settings by which a learner learns; learning does not change them."""

    method: Method
    model: ModelSettings
    training: TrainingSettings
    options: MethodSettings
    seed: int

    def tokenized(self, examples: Sequence[Example]) -> Tokenized:
        """Examples as tokens of the kind that the encoder reads."""
        return tokenize_examples(examples, self.training.max_words, self.model.encoder.tokenizer(self.model))


@dataclass(frozen=True)
class Learnt:
    """The knowledge of a learner so far; an adaptation makes the next of it."""

    task: str | None
    labels: tuple[str, ...] | None
    model: Model | None
    vocabulary: Vocabulary
    plugins: Plugins
    history: History


def write_checkpoint(path: str | Path, setup: Setup, learnt: Learnt) -> None:
    """Write a learner as a folder, in place of what was there; a reader never sees half of it."""
    write_folder(path, pack(setup, learnt), FORMAT)


def read_checkpoint(path: str | Path, device: torch.device) -> tuple[Setup, Learnt]:
    """Read a folder that `write_checkpoint` wrote."""
    files = checkpoint_files(path)
    try:
        return unpack(files, device)
    except MemgrowError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path} is not a model that this memgrow understands: {error}") from error


def checkpoint_files(path: str | Path) -> dict[str, bytes]:
    """The files of a model's folder, if it is whole and of a format that can be read."""
    return read_folder(path, FORMAT)


def pack(setup: Setup, learnt: Learnt) -> dict[str, bytes]:
    """The files of a learner that has learnt something."""
    if learnt.model is None:
        raise ModelError("this learner has learnt nothing yet: give it a domain with `adapt` first")
    config = {
        "method": setup.method.name,
        "task": learnt.task,
        "labels": learnt.labels,
        "seed": setup.seed,
        "model": asdict(setup.model),
        "training": asdict(setup.training),
        "options": asdict(setup.options),
        "shape": learnt.model.shape(),
    }
    files = {
        MODEL: pack_tensors(learnt.model.state_dict()),
        CONFIG: pack_json(config),
        VOCABULARY: pack_json(learnt.vocabulary.to_json()),
        HISTORY: pack_json(learnt.history.to_json()),
    }
    remembered = learnt.plugins.tensors()
    return {**files, REMEMBERED: pack_tensors(remembered)} if remembered else files


def unpack(files: Mapping[str, bytes], device: torch.device) -> tuple[Setup, Learnt]:
    """The values that `pack` made files of."""
    config = json.loads(files[CONFIG])
    setup = Setup(
        find_method(config["method"]),
        ModelSettings(**config["model"]),
        TrainingSettings(**config["training"]),
        MethodSettings(**config["options"]),
        config["seed"],
    )
    labels = tuple(config["labels"])
    model = rebuild(config["task"], setup.model, len(labels), config["shape"])
    model.load_state_dict(load_tensors(files, MODEL))
    plugins = setup.method.plugins(setup.options)
    plugins.restore({name: tensor.to(device) for name, tensor in load_tensors(files, REMEMBERED).items()})
    vocabulary = Vocabulary.from_json(json.loads(files[VOCABULARY]))
    history = History.from_json(json.loads(files[HISTORY]))
    return setup, Learnt(config["task"], labels, model.to(device), vocabulary, plugins, history)
