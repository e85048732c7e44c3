"""A learner as the files of its folder, and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from memgrow.history import History
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings, rebuild
from memgrow.storage import load_tensors, pack_json, pack_tensors
from memgrow.text import Vocabulary
from memgrow.training.loop import TrainingSettings

if TYPE_CHECKING:
    from memgrow.learner import Learner


def pack(learner: "Learner") -> dict[str, bytes]:
    """config.json and shape rebuild the model, model.safetensors fills it; the rest is what the learner knows."""
    model = learner.trained()
    config = {
        "method": learner.method.name,
        "task": learner.task,
        "labels": learner.labels,
        "seed": learner.seed,
        "model": asdict(learner.settings),
        "training": asdict(learner.training),
        "options": asdict(learner.options),
        "shape": model.shape(),
    }
    files = {
        "model.safetensors": pack_tensors(model.state_dict()),
        "config.json": pack_json(config),
        "vocabulary.json": pack_json(learner.vocabulary.to_json()),
        "history.json": pack_json(learner.history.to_json()),
    }
    remembered = learner.plugins.tensors()
    return {**files, "remembered.safetensors": pack_tensors(remembered)} if remembered else files


def unpack(kind: "type[Learner]", files: Mapping[str, bytes], device: str) -> "Learner":
    config = json.loads(files["config.json"])
    learner = kind.create(
        config["method"],
        task=config["task"],
        labels=config["labels"],
        model=ModelSettings(**config["model"]),
        training=TrainingSettings(**config["training"]),
        options=MethodSettings(**config["options"]),
        seed=config["seed"],
        device=device,
    )
    model = rebuild(config["task"], learner.settings, len(config["labels"]), config["shape"])
    model.load_state_dict(load_tensors(files, "model.safetensors"))
    learner.model = model.to(learner.device)
    learner.vocabulary = Vocabulary.from_json(json.loads(files["vocabulary.json"]))
    learner.history = History.from_json(json.loads(files["history.json"]))
    remembered = load_tensors(files, "remembered.safetensors")
    learner.plugins.restore({name: tensor.to(learner.device) for name, tensor in remembered.items()})
    return learner
