"""An independent domain as a file: safetensors with the entry's key and value, and JSON for all else."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from memgrow.data.disk import atomic_write, load_tensors, pack_json, read_metadata
from memgrow.errors import ModelError, brief
from memgrow.evaluation.calibration import Calibration
from memgrow.evaluation.drift import Reference
from memgrow.evaluation.history import Stage
from memgrow.models import Classifier
from memgrow.models.domain_memory import LABELS, DomainMemory, Entry
from memgrow.models.router import KEY
from memgrow.storage.checkpoint import DAMAGED, check_types
from memgrow.storage.folder import writing
from memgrow.training.independent import DomainPart, assemble, is_independent, parts_of
from memgrow.training.settings import LearnerConfig, LearnerState

FORMAT, ABOUT = 1, "memgrow"


def export_domain(config: LearnerConfig, state: LearnerState, name: str, path: str | Path) -> None:
    """Write an independent domain as a file."""
    part = next((one for one in _independent_parts(state) if one.name == name), None)
    if part is None:
        raise ModelError(f"there is no domain {name!r}; there are {', '.join(state.history.domains)}")
    about = {
        "format": FORMAT,
        "base": _base_of(config, state),
        "name": name,
        "labels": part.labels,
        "blocks": part.entry.blocks,
        "encoder": part.entry.shape,
        "stage": part.stage.to_json(),
        "calibration": Calibration(domains={name: part.calibration} if part.calibration else {}).to_json(),
        "reference": Reference({name: part.reference} if part.reference else {}).to_json(),
    }
    tensors = {key: tensor.cpu().contiguous() for key, tensor in part.entry.tensors.items() if key != LABELS}
    with writing(Path(path)):
        atomic_write(path, save(tensors, {ABOUT: json.dumps({"sha256": _digest(about, tensors), "about": about})}))


def import_domain(config: LearnerConfig, state: LearnerState, path: str | Path) -> tuple[LearnerState, str]:
    """The state with the domain of a file, and the domain's name."""
    parts = _independent_parts(state)
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"{path} is not a file: check the name")
    try:
        part = _read_part(config, state, path)
        if part.name in state.history.domains:
            raise ModelError(f"this model has a domain {part.name} already: remove it first (memgrow domain remove)")
        found = assemble(config, state, [*parts, part])
        _check_fits(found, part)
    except ModelError:
        raise
    except DAMAGED as error:
        raise ModelError(f"{path} is not an exported domain, or is damaged ({brief(error)})") from error
    return found, part.name


def _independent_parts(state: LearnerState) -> list[DomainPart]:
    if not is_independent(state):
        raise ModelError(
            "only independent domains are files, and this model has none: train one with --method lora+memory "
            "--set independent=true"
        )
    return parts_of(state)


def _base_of(config: LearnerConfig, state: LearnerState) -> dict[str, Any]:
    """What two models must have in common for an entry to be read by both."""
    assert isinstance(state.model, Classifier)
    settings = config.model.to_json()
    names = ("weights", "pooling", "pairs", "perceptron")
    width = next(state.model.memory.entries()).tensors[KEY].shape[1] if state.model.memory is not None else 0
    return {"task": state.task, "width": width, **{name: settings.get(name) for name in names}}


def _read_part(config: LearnerConfig, state: LearnerState, path: Path) -> DomainPart:
    tensors, stored = load_tensors(path), json.loads(read_metadata(path)[ABOUT])
    about = stored["about"]
    if about["format"] != FORMAT:
        raise ModelError(f"{path} was exported by another memgrow (format {about['format']}): export it again")
    if stored["sha256"] != _digest(about, tensors):
        raise ValueError("its checksum differs")
    expected = _base_of(config, state)
    if differing := [name for name, value in expected.items() if about["base"].get(name) != value]:
        name = "encoder" if differing[0] == "weights" else differing[0]
        raise ModelError(f"{path} was learned with another {name} than this model's: only the same one reads it")
    name, labels = about["name"], tuple(about["labels"])
    if not all(isinstance(one, str) for one in (name, *labels)) or not all(
        type(n) is int and n > 0 for n in about["blocks"]
    ):
        raise ValueError("names or blocks of labels")
    calibration, reference = Calibration.from_json(about["calibration"]), Reference.from_json(about["reference"])
    stage = Stage.from_json(about["stage"])
    check_types(str(path), stage, calibration, reference)
    return DomainPart(
        Entry(name, tuple(about["blocks"]), about["encoder"], 0.0, {**tensors, LABELS: torch.arange(len(labels))}),
        labels,
        stage,
        {},
        calibration.domains.get(name),
        reference.domains.get(name),
    )


def _check_fits(state: LearnerState, part: DomainPart) -> None:
    """Refuse what is no part of this model: the last one of a state that has it."""
    assert isinstance(state.model, Classifier)
    assert state.model.memory is not None
    model, memory = state.model, state.model.memory
    if part.stage.learned != (part.name,) or sum(part.entry.blocks) != len(set(part.labels)):
        raise ValueError("labels or stage")
    if missing := {name for name in model.state_dict() if name.startswith("heads.")} - part.entry.tensors.keys():
        raise ValueError(f"{min(missing)} is missing")
    for name, tensor in DomainMemory.restore(memory.shape(), memory.base).state_dict().items():
        own = memory.state_dict()[name]
        if tensor.dtype != own.dtype or not own.isfinite().all():
            raise ValueError(f"{name} is not finite, or of {own.dtype}")
    memory.model_for(len(memory) - 1, model)  # builds it


def _digest(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(pack_json(json.loads(json.dumps(about, sort_keys=True))))
    for name in sorted(tensors.keys() - {LABELS}):
        found.update(f"{name} {tensors[name].dtype} {[*tensors[name].shape]}".encode())
        found.update(tensors[name].cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
