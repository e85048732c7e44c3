"""Independent domains: a model that is assembled from one part for each domain, and nothing else.

Each part was trained from the original encoder with a seed of its own. Adding, importing and removing a domain all
assemble the model anew, so that a model without a domain is, bit by bit, one that never saw it. An exported domain is a
file: safetensors with the entry's key and value, and JSON for all else.
"""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from memgrow.data.disk import atomic_write, load_tensors, pack_json, read_metadata
from memgrow.data.text import Vocabulary
from memgrow.errors import ModelError, SettingsError, brief, listed
from memgrow.evaluation.calibration import Calibration, DomainCalibration
from memgrow.evaluation.drift import DomainReference, Reference
from memgrow.evaluation.history import AccuracyMatrix, History, Row, Stage
from memgrow.methods.ema import EMA
from memgrow.methods.lora import LoRA
from memgrow.methods.memory import Memory
from memgrow.models import Classifier
from memgrow.models.domain_memory import INDEPENDENT, LABELS, DomainMemory, Entry, go_to_base
from memgrow.models.router import KEY
from memgrow.nn.device import seeded
from memgrow.storage.checkpoint import DAMAGED, check_types
from memgrow.storage.folder import writing
from memgrow.training.settings import LearnerConfig, LearnerState


@dataclass(frozen=True)
class DomainPart:
    """All that a model has of an independent domain."""

    entry: Entry
    labels: tuple[str, ...]  # in the order of the entry's head
    stage: Stage
    scores: Mapping[str, float] = field(default_factory=dict)  # of test sets after this stage
    calibration: DomainCalibration | None = None
    reference: DomainReference | None = None

    @property
    def name(self) -> str:
        return self.entry.name


def check_independent(config: LearnerConfig, state: LearnerState) -> None:
    """Refuse settings and models that independent domains do not go with."""
    if not config.model.is_pretrained or not config.method.keeps_memory:
        raise SettingsError("independent domains need an encoder and a domain memory: use --method lora+memory")
    if config.method.grows or not set(config.method.parts) <= {LoRA, EMA, Memory}:
        raise SettingsError("independent domains go with lora+memory and finetune+memory: use one of them")
    if state.model is None and state.labels is not None:
        raise SettingsError("independent domains bring their own labels: leave the labels (classes) out")
    if state.model is not None and (state.memory is None or not state.memory.independent):
        raise SettingsError("this model's domains are not independent: start a new model for independent ones")


def parts_of(state: LearnerState) -> list[DomainPart]:
    """The parts of a model with independent domains; none of a learner without a model."""
    if state.memory is None:
        return []
    rows = state.history.matrix.rows
    return [
        DomainPart(
            entry,
            tuple((state.labels or ())[label] for label in entry.tensors[LABELS].tolist()),
            stage,
            row.scores,
            state.calibration.domains.get(entry.name),
            state.reference.domains.get(entry.name),
        )
        for entry, stage, row in zip(state.memory.entries(), state.history.stages, rows, strict=True)
    ]


def assemble(config: LearnerConfig, like: LearnerState, parts: Sequence[DomainPart]) -> LearnerState:
    """The state of a learner with these domains; `like` has the original encoder and the kind of model."""
    assert isinstance(like.model, Classifier)
    assert like.memory is not None
    base = like.memory.base
    assert base is not None
    labels: list[str] = []
    for part in parts:
        labels += sorted(set(part.labels).difference(labels))
    with seeded(0, device=like.model.device):  # draws numbers, which are not used
        model = type(like.model)(copy.deepcopy(base), len(labels)).to(like.model.device)
    go_to_base(model, base)
    entries = []
    for part in parts:
        own = torch.tensor([labels.index(label) for label in part.labels]).to(model.device)
        tensors = dict(sorted({**part.entry.tensors, LABELS: own}.items()))  # as a file has them
        entries.append(replace(part.entry, tensors=tensors))
    model.memory = DomainMemory(entries, base, INDEPENDENT)
    calibrated = {one.name: replace(one.calibration, stage=n) for n, one in enumerate(parts, 1) if one.calibration}
    temperature = fmean(one.temperature for one in calibrated.values()) if calibrated else 1.0
    return LearnerState(
        task=like.task,
        labels=tuple(labels),
        model=model,
        vocabulary=Vocabulary(),
        method_state=config.method.create(config.options),
        history=History(
            [part.stage for part in parts],
            AccuracyMatrix(tuple(Row(part.stage.learned, dict(part.scores)) for part in parts)),
            dict(like.history.baseline),
            {part.name: part.labels for part in parts},
            dict(like.history.test_examples),
        ),
        calibration=Calibration(temperature, calibrated),
        reference=Reference({part.name: part.reference for part in parts if part.reference is not None}),
    )


def without(config: LearnerConfig, state: LearnerState, name: str) -> LearnerState:
    """The state without a domain. Of independent domains nothing of it is left; else traces are in later ones."""
    known, memory = state.history.domains, state.memory
    if name not in known:
        raise ModelError(f"there is no domain {name!r}; there are {listed(known)}")
    if memory is None or name not in memory.names:
        raise ModelError(f"this model has no entry for {name}: only domains of a domain memory can be removed")
    if len(memory) == 1:
        raise ModelError(f"{name} is the only domain: remove the model's folder")
    number, parts = memory.names.index(name), parts_of(state) if memory.independent else []
    if parts:
        # Scores were measured with the domain from its stage on.
        kept = [replace(one, scores=_other(one.scores, name) if i < number else {}) for i, one in enumerate(parts)]
        found = assemble(config, state, [one for one in kept if one.name != name])
    else:
        found = _without_chained(state, name, number)
    history = found.history
    history.baseline, history.test_examples = _other(history.baseline, name), _other(history.test_examples, name)
    return found


def _without_chained(state: LearnerState, name: str, number: int) -> LearnerState:
    memory, labels = state.memory, state.labels or ()
    assert memory is not None
    if memory.names.count(name) > 1 or len(memory) != len(state.history.stages):
        raise ModelError(f"{name} was learned more than once: it cannot be removed")
    if memory.names[-1] == name:
        raise ModelError(f"{name} is the newest domain, and the model's weights are its own: use `memgrow undo`")
    used = {int(label) for one in memory.entries() if one.name != name for label in one.tensors[LABELS]}
    # Statistics of a method have a row for each label as well: then labels stay.
    kept = list(range(len(labels))) if state.method_state.state_dict() else sorted(used)
    new = copy.deepcopy(state)
    new.method_state.load_rows(_other(new.method_state.rows, name))
    assert isinstance(new.model, Classifier)
    new.model.memory = memory.without(name, kept, new.model.label_parameters)
    new.model.keep_labels(kept)
    history = new.history
    del history.stages[number]
    rows = [Row(row.learned, _other(row.scores, name)) for i, row in enumerate(history.matrix.rows) if i != number]
    history.matrix = AccuracyMatrix(tuple(rows))
    history.labels = _other(history.labels, name)
    calibrated = {
        one: replace(found, stage=found.stage - (found.stage > number + 1))
        for one, found in _other(state.calibration.domains, name).items()
    }
    calibration = replace(state.calibration, domains=calibrated)
    reference = Reference(_other(state.reference.domains, name))
    return replace(new, labels=tuple(labels[label] for label in kept), calibration=calibration, reference=reference)


def _other(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


# A domain as a file

FORMAT, ABOUT = 1, "memgrow"


def export_domain(config: LearnerConfig, state: LearnerState, name: str, path: str | Path) -> None:
    """Write an independent domain as a file."""
    part = next((one for one in _independent_parts(state, "export a domain") if one.name == name), None)
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
    parts, path = _independent_parts(state, "take in a domain"), Path(path)
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


def _independent_parts(state: LearnerState, what: str) -> list[DomainPart]:
    if state.memory is None or not state.memory.independent:
        raise ModelError(
            f"the model cannot {what}, as its domains are not independent: train a new one with --method lora+memory "
            "--set independent=true"
        )
    return parts_of(state)


def _base_of(config: LearnerConfig, state: LearnerState) -> dict[str, Any]:
    """What two models must have in common for an entry to be read by both."""
    assert state.memory is not None
    settings = config.model.to_json()
    names = ("weights", "pooling", "pairs", "perceptron")
    width = next(state.memory.entries()).tensors[KEY].shape[1]
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
    model, memory = state.model, state.memory
    assert isinstance(model, Classifier)
    assert memory is not None
    if part.stage.learned != (part.name,) or sum(part.entry.blocks) != len(set(part.labels)):
        raise ValueError("labels or stage")
    if missing := {name for name in model.state_dict() if name.startswith("heads.")} - part.entry.tensors.keys():
        raise ValueError(f"{min(missing)} is missing")
    own = memory.state_dict()
    stored = {name: tuple(tensor.shape) for name, tensor in own.items()}
    for name, tensor in DomainMemory.restore(memory.shape(), memory.base, stored).state_dict().items():
        if tensor.dtype != own[name].dtype or not own[name].isfinite().all():
            raise ValueError(f"{name} is not finite, or of {own[name].dtype}")
    memory.model_for(len(memory) - 1, model)  # builds it


def _digest(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(pack_json(json.loads(json.dumps(about, sort_keys=True))))
    for name in sorted(tensors.keys() - {LABELS}):
        found.update(f"{name} {tensors[name].dtype} {[*tensors[name].shape]}".encode())
        found.update(tensors[name].cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
