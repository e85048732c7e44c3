"""The format of a model's folder: the names of its files and what stands in each, from values and back to them.

A later format raises `FORMAT`, and turns the files of an older folder into its own in `checkpoint_files`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from memgrow.calibration import Calibration
from memgrow.data import Example
from memgrow.data.vectors import RememberedVectors
from memgrow.data.vocabulary import Vocabulary
from memgrow.drift import Reference
from memgrow.errors import MemgrowError, MissingExtraError, ModelError, SettingsError, brief
from memgrow.folder_reader import TRIES, find_damage, read_folder
from memgrow.history import History
from memgrow.kinds import wrong_part
from memgrow.manifest import MANIFEST
from memgrow.methods import CombinedMethod, MethodSettings, find_method
from memgrow.methods.rehearsal import pack_rows, unpack_rows
from memgrow.models import ModelSettings, described, rebuild, settings_from
from memgrow.models.fit import build_fitting, check_numbers
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.storage import (
    Content,
    ReplacedError,
    load_json,
    load_tensors,
    pack_json,
)
from memgrow.training.checks import check_examples
from memgrow.training.settings import TrainingSettings
from memgrow.training.state import LearnerConfig, LearnerState
from memgrow.unwritten_tensors import UnwrittenTensors
from memgrow.weight_files import BASE, MODEL, load_weights, pack_weights, weight_shapes

FORMAT = 2  # of a model's folder; a later one is refused
CONFIG = "config.json"  # settings and shape, by which the model is built anew
VOCABULARY = "vocabulary.json"
HISTORY = "history.json"
ENCODER = "encoder.json"  # the configuration of a pretrained encoder, as transformers reads it
TOKENIZER = "tokenizer.json"  # its tokenizer, as the library tokenizers reads it
REMEMBERED = "remembered.safetensors"  # by the method's plugins, if they remember anything
CALIBRATION = "calibration.json"  # the temperature of its probabilities; folders of earlier memgrows have none
DRIFT = "drift.json"  # a summary of each domain's texts, for telling drift; likewise
REHEARSAL = "rehearsal.json"  # rows of earlier domains, by a method that keeps some; all others have no such file
JOINED = ("rehearse", "rehearsal_share")  # options that folders of format 2 had not at first
LONGEST = 300  # characters that an error repeats of what a folder holds
NOT_UNDERSTOOD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)  # values of a file
SIGNS = {MANIFEST, CONFIG, MODEL, BASE}  # a folder with any of these is a model, be it half copied

Noted = TypeVar("Noted", Calibration, Reference)


def read_checkpoint(
    path: str | Path, device: torch.device, model: ModelSettings | None = None, number: int | None = None
) -> tuple[LearnerConfig, LearnerState]:
    """Read a folder that `write_checkpoint` wrote, or the earlier version of that number in it.

    `model` takes the place of settings that had no effect as yet.
    """
    for attempt in range(TRIES):
        try:
            return unpack(checkpoint_files(path, number), device, model)
        except ReplacedError:  # a newer version is there by now
            if attempt == TRIES - 1:
                raise
        except MissingExtraError:  # the model is whole
            raise
        except SettingsError as error:  # its configuration, not anything that the caller has said
            said = str(error) if len(str(error)) <= LONGEST else f"{str(error)[:LONGEST]}..."
            raise ModelError(f"{path} is not a model that this memgrow understands: {said}") from error
        except MemgrowError:
            raise
        except NOT_UNDERSTOOD as error:
            raise ModelError(f"{path} is not a model that this memgrow understands: {brief(error)}") from error
    raise AssertionError


def find_faults(path: str | Path, number: int | None = None) -> list[str]:
    """All that is wrong with a model, or with an earlier version of it, a sentence each; none if it can be loaded."""
    if found := find_damage(path, FORMAT, {BASE}, number):
        return found
    try:
        read_checkpoint(path, torch.device("cpu"), number=number)
    except MemgrowError as error:
        return [str(error)]
    return []


def checkpoint_files(path: str | Path, number: int | None = None) -> dict[str, Content]:
    """The files of a model, or of an earlier version of it, if it is whole and of a format that can be read."""
    return read_folder(path, FORMAT, {BASE}, number)


def pack(setup: LearnerConfig, learnt: LearnerState, bases: Sequence[Path] = ()) -> dict[str, Content]:
    """The files of a learner that has learnt something; `bases` are those of earlier versions, if they are there."""
    if learnt.model is None:
        raise ModelError("this learner has learned nothing yet: call adapt with a domain first")
    check_numbers(learnt.model, learnt.model.state_dict())
    noted: dict[str, Content] = {
        name: pack_json(one.to_json())
        for name, one in ((CALIBRATION, learnt.calibration), (DRIFT, learnt.reference))
        if one.domains
    }
    config = {
        "method": setup.method.name,
        "task": learnt.task,
        "labels": learnt.labels,
        **({"labels_by_domain": learnt.history.labels} if learnt.history.labels else {}),
        "seed": setup.seed,
        "model": described(setup.model),
        "training": asdict(setup.training),
        "options": _described_options(setup.options),
        "shape": learnt.model.shape(),
        **({"word_vectors": setup.vectors.to_json()} if setup.vectors else {}),
        **({"licences": list(setup.encoder.licences)} if setup.encoder else {}),
        "noted": list(noted),  # so that they are missed if they are lost: folders of earlier memgrows have none
    }
    files: dict[str, Content] = {
        **pack_weights(learnt.model, bases),
        CONFIG: pack_json(config),
        VOCABULARY: pack_json(learnt.vocabulary.to_json()),
        HISTORY: pack_json(learnt.history.to_json()),
        **(_pack_encoder(setup.encoder) if setup.encoder else {}),
        **noted,
    }
    if setup.method.keeps_rows:  # also if there are none, so that rows that were lost are missed
        files[REHEARSAL] = pack_json(pack_rows(learnt.method_state.rows))
    tensors = {REMEMBERED: learnt.method_state.state_dict()}
    return {**files, **{name: UnwrittenTensors.of(some) for name, some in tensors.items() if some}}


def _described_options(options: MethodSettings) -> dict[str, Any]:
    """The options by name; one that has joined is named where it differs, so that earlier memgrows read the others."""
    usual = asdict(MethodSettings())
    return {name: value for name, value in asdict(options).items() if name not in JOINED or value != usual[name]}


def unpack(
    files: Mapping[str, Content], device: torch.device, model_settings: ModelSettings | None = None
) -> tuple[LearnerConfig, LearnerState]:
    """The values that `pack` made files of."""
    config = load_json(files, CONFIG)
    setup = LearnerConfig(
        find_method(config["method"], retired=True),
        model_settings or settings_from(config["model"]),
        TrainingSettings(**config["training"]),
        MethodSettings.from_json(config["options"]),
        config["seed"],
        _unpack_encoder(files, config) if ENCODER in files else None,
        _unpack_vectors(config),
    )
    labels, history = tuple(config["labels"]), unpack_history(files)
    _check_kinds({CONFIG: setup.model, f"{CONFIG}: training": setup.training, f"{CONFIG}: options": setup.options})
    others = ((labels, tuple[str, ...], "labels"), (setup.seed, int, "seed"))
    if wrong := next(filter(None, (wrong_part(*one) for one in others)), None):
        raise _wrong(f"{CONFIG}: {wrong}")
    if len(set(labels)) != len(labels):
        raise _wrong(f"{CONFIG}: labels")
    if setup.model.kind.is_pretrained and setup.encoder is None:
        raise ModelError(f"{ENCODER} is missing, without which its encoder cannot be built: go back to a saved model")
    model = build_fitting(
        lambda: rebuild(config["task"], setup.model, len(labels), config["shape"], setup.encoder),
        config["model"],
        config["shape"],
        setup.encoder,
        weight_shapes(files),
    )
    vocabulary = Vocabulary.from_json(load_json(files, VOCABULARY))
    if config["shape"].get("words", len(vocabulary)) != len(vocabulary):
        said = f"{VOCABULARY} has {len(vocabulary):,} words, and {CONFIG} tells of {config['shape']['words']:,}"
        raise ModelError(f"{said}: copy the model again, or go back to a saved one")
    load_weights(model, files)
    model.encoder.check_reading()
    # As it will be asked: its special pieces may leave no room for words, which no other part of loading would see.
    setup.tokenize([Example("a", "a" if config["task"] == "pair" else None)])
    method_state = setup.method.create(setup.options)
    method_state.load_state_dict({name: tensor.to(device) for name, tensor in load_tensors(files, REMEMBERED).items()})
    try:
        method_state.check_state(model, bool(history.stages))
    except ValueError as error:
        raise ModelError(f"{REMEMBERED}: {error}; copy the model again, or go back to a saved one") from error
    if setup.method.keeps_rows:
        _restore_rows(method_state, files, config["task"], labels, history)
    known = (config["task"], labels, model.to(device), vocabulary, method_state, history)
    noted = config.get("noted", [])
    if wrong_part(noted, list[str], "noted") is not None:
        raise _wrong(f"{CONFIG}: noted")
    calibration = _unpack_noted(files, CALIBRATION, Calibration, CALIBRATION in noted)
    return setup, LearnerState(*known, calibration, _unpack_noted(files, DRIFT, Reference, DRIFT in noted))


def _restore_rows(
    method: CombinedMethod, files: Mapping[str, Content], task: str, labels: Sequence[str], history: History
) -> None:
    """Give the method the rows that it keeps."""
    if REHEARSAL not in files:
        raise ModelError(f"{REHEARSAL} is missing, with the rows that its method keeps: go back to a saved model")
    try:
        rows = unpack_rows(load_json(files, REHEARSAL))
        for domain, examples in rows.items():
            if domain not in history.domains:
                raise ValueError(f"there is no domain {domain}")
            check_examples(examples, task, labels)
    except NOT_UNDERSTOOD as error:
        raise _wrong(REHEARSAL) from error
    method.load_rows(rows)


def unpack_history(files: Mapping[str, Content]) -> History:
    """The history among the files of a model; without its configuration it does not know of labels."""
    known = load_json(files, CONFIG).get("labels_by_domain") if CONFIG in files else None
    history = History.from_json(load_json(files, HISTORY), known)
    _check_kinds({HISTORY: history})
    if [row.learned for row in history.matrix.rows] != [stage.learned for stage in history.stages]:
        raise _wrong(f"{HISTORY}: matrix")
    return history


def _unpack_vectors(config: Mapping[str, Any]) -> RememberedVectors | None:
    try:
        return RememberedVectors.from_json(config)
    except NOT_UNDERSTOOD as error:
        raise _wrong(f"{CONFIG}: word_vectors") from error


def _unpack_noted(files: Mapping[str, Content], name: str, kind: type[Noted], expected: bool) -> Noted:
    """What was noted of the data of each stage; of a folder that has never had such a file, nothing."""
    if name not in files:
        if expected:
            raise ModelError(f"{name} is missing, though it was saved with the model: go back to a saved one")
        return kind()
    try:
        noted = kind.from_json(load_json(files, name))
    except NOT_UNDERSTOOD as error:
        raise _wrong(name) from error
    _check_kinds({name: noted})
    return noted


def _check_kinds(values: Mapping[str, Any]) -> None:
    """Refuse dataclasses with fields of another kind than they say, as JSON may have any."""
    for name, value in values.items():
        if (wrong := wrong_part(value, type(value), name)) is not None:
            raise _wrong(wrong)


def _wrong(what: str) -> ModelError:
    shown = what if len(what) <= 200 else f"{what[:200]}..."
    return ModelError(f"{shown} is not of the kind that it must be: copy the model again, or go back to a saved one")


def _pack_encoder(encoder: EncoderFiles) -> dict[str, Content]:
    """The files that an encoder is built from on a machine that has never fetched it; its weights are the model's."""
    texts = {ENCODER: encoder.config, TOKENIZER: encoder.tokenizer, **encoder.licences}
    return {name: text.encode() for name, text in texts.items()}


def _unpack_encoder(files: Mapping[str, Content], config: Mapping[str, Any]) -> EncoderFiles:
    def text(name: str) -> str:
        return cast(bytes, files[name]).decode()

    licences = {name: text(name) for name in config["licences"]}
    model = config["model"]
    return EncoderFiles(model["encoder"], text(ENCODER), text(TOKENIZER), model["weights"], licences)
