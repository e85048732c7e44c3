"""A domain of a causal language model as an adapter of the library peft: a folder that vLLM and transformers load."""

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from memgrow.data import Example
from memgrow.data.batches import Encoded
from memgrow.data.disk import check_regular, load_tensors, pack_json, read_metadata, save_tensors, sha256_of, write_new
from memgrow.data.text import Vocabulary
from memgrow.errors import ModelError, brief
from memgrow.evaluation.history import Grew, Stage
from memgrow.models import CausalModel
from memgrow.models.domain_memory import LABELS, DomainMemory, Entry, way_back
from memgrow.models.hub import public_name
from memgrow.models.router import KEY, NOISE, TEXTS, VARIANCE, key_of
from memgrow.nn.lora import SCALE
from memgrow.storage.checkpoint import DAMAGED
from memgrow.training.settings import LearnerConfig, LearnerState

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ROUTER, ABOUT = "memgrow.safetensors", "memgrow"  # what memgrow needs beside: how messages are routed to the domain
OF_KEYS = (KEY, VARIANCE, TEXTS, NOISE)  # noise: of private keys
DOWN, UP = "lora_A.weight", "lora_B.weight"
UNREAD = ("use_dora", "modules_to_save", "rank_pattern", "alpha_pattern")  # additions of other kinds


def export_adapter(config: LearnerConfig, state: LearnerState, name: str, folder: Path) -> None:
    """Write the additions that answer for a domain as a new folder."""
    model = _low_rank_model(state)
    if model.memory is None and name != state.history.domains[-1]:
        raise ModelError(
            f"without a domain memory only the newest domain ({state.history.domains[-1]}) has its weights"
        )
    if folder.exists():
        raise ModelError(f"{folder} exists already: choose another name, or remove it")
    number = None if model.memory is None else model.memory.number(name)
    reader = model if model.memory is None or number is None else model.memory.model_for(number, model)
    layers, tensors = reader.additions_by_layer(), dict[str, Tensor]()
    for layer, addition in layers.items():
        tensors[f"base_model.model.{layer}.{DOWN}"] = addition.down
        tensors[f"base_model.model.{layer}.{UP}"] = addition.up
    values = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": public_name(config.model.to_json()["encoder"]),
        "r": model.rank,
        "lora_alpha": SCALE * model.rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({layer.rpartition(".")[2] for layer in layers}),
        "fan_in_fan_out": any(type(one).__name__ == "Conv1D" for one in model.encoder.linear_layers().values()),
        "inference_mode": True,
    }
    folder.mkdir(parents=True)
    save_tensors(folder / WEIGHTS, tensors, {"format": "pt"})
    if model.memory is not None and number is not None:
        entry = list(model.memory.entries())[number]
        about = {"name": name, "weights": config.model.to_json()["weights"]}
        key = {one: entry.tensors[one] for one in OF_KEYS if one in entry.tensors}
        save_tensors(folder / ROUTER, key, {ABOUT: json.dumps(about)})
    write_new(folder / CONFIG, pack_json(values))  # last: a folder without it is no adapter


def import_adapter(
    config: LearnerConfig, state: LearnerState, folder: Path, name: str | None, messages: list[Example]
) -> tuple[LearnerState, str]:
    """The state with an adapter as its newest domain, and the domain's name.

    Messages say which messages belong to it; an adapter that memgrow exported brings that along.
    """
    model = _low_rank_model(state)
    if model.memory is None:
        raise ModelError("only a model with a domain memory takes in a domain: train one with --method lora+memory")
    about: dict[str, Any] = {}
    try:
        if (folder / ROUTER).is_file():
            about, key = json.loads(read_metadata(folder / ROUTER)[ABOUT]), load_tensors(folder / ROUTER)
            if about["weights"] != config.model.to_json()["weights"]:
                raise ModelError(f"{folder} was learned on another language model than this model's")
            width = model.encoder.width
            if [*key[KEY].shape] != [len(key[TEXTS]), width] or not key[KEY].isfinite().all():
                raise ValueError("its key has another size")
        elif messages:
            texts = config.tokenize(messages).texts
            key = key_of(Encoded(texts, [-1] * len(texts)), cast(Any, model.memory.base), private=False)
        else:
            raise ModelError(f"{folder} does not say which messages it answers: give some (--messages FILE)")
        name = name or about.get("name") or folder.resolve().name
        if name in state.history.domains:
            raise ModelError(f"this model has a domain {name} already: give another name (--name)")
        new = model.twin()
        new.load_state_dict(_additions(model, folder), strict=False)
    except DAMAGED as error:
        raise ModelError(f"{folder} is not an adapter of this model, or is damaged ({brief(error)})") from error
    entries = list(model.memory.entries())
    entries[-1] = replace(entries[-1], tensors={**entries[-1].tensors, **way_back(model, new, 0)})
    own = {one: key[one].to(model.device) for one in OF_KEYS if one in key}
    labels = torch.tensor([-1], device=model.device)
    entries.append(Entry(name, (), {}, 0.0, {**own, LABELS: labels}))
    new.memory = DomainMemory(entries, model.memory.base, model.memory.read)
    history = copy.deepcopy(state.history)
    date, sha256 = datetime.now(UTC).isoformat(timespec="seconds"), sha256_of(folder / WEIGHTS)
    note = {"imported": folder.name}
    history.add(Stage((name,), config.method.name, Grew(), 0, 0, 0, 0, 0.0, 0.0, sha256[:32], note=note, date=date), {})
    return replace(state, model=new, history=history, vocabulary=Vocabulary()), name


def _low_rank_model(state: LearnerState) -> CausalModel:
    if not isinstance(state.model, CausalModel) or not state.model.rank:
        raise ModelError("only a causal language model that learns by LoRA has adapters")
    return state.model


def _additions(model: CausalModel, folder: Path) -> dict[str, Tensor]:
    """The tensors of an adapter by the names of the model's own."""
    check_regular(folder / CONFIG)
    values, stored = json.loads((folder / CONFIG).read_bytes()), load_tensors(folder / WEIGHTS)
    if values.get("peft_type") != "LORA" or any(values.get(name) for name in UNREAD):
        raise ModelError(f"{folder} is not a plain LoRA adapter: memgrow reads no other kind")
    rank = int(values["r"])
    scale = values["lora_alpha"] / (rank**0.5 if values.get("use_rslora") else rank) / SCALE
    if rank > model.rank:
        raise ModelError(
            f"{folder} has rank {rank}, and this model's additions {model.rank}: start one with rank={rank}"
        )
    found: dict[str, Tensor] = {}
    for number, (layer, addition) in enumerate(model.additions_by_layer().items()):
        down, up = torch.zeros_like(addition.down), torch.zeros_like(addition.up)
        names = [f"base_model.model.{layer}.{part}" for part in (DOWN, UP)]
        if names[0] in stored:
            down[:rank], up[:, :rank] = stored.pop(names[0]), scale * stored.pop(names[1])
        found |= {f"additions.{number}.down": down, f"additions.{number}.up": up}
    if stored:
        raise ModelError(f"{folder} was made for another language model: {min(stored)[:100]} is not in this one")
    if not all(bool(tensor.isfinite().all()) for tensor in found.values()):
        raise ValueError("a weight is not a finite number")
    return found
