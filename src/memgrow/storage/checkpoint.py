"""What a version of a model consists of: the names of its files, how they are written and read.

The number of the format is `folder.FORMAT`, which also reads older folders.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor

from memgrow.data import Example
from memgrow.data.disk import TENSORS, link_or_copy, load_tensors, pack_json, save_tensors, write_new, wrong_part
from memgrow.data.text import Vocabulary
from memgrow.data.vectors import RememberedVectors
from memgrow.errors import MemgrowError, MissingExtraError, ModelError, SettingsError, brief
from memgrow.evaluation.calibration import Calibration
from memgrow.evaluation.drift import Reference
from memgrow.evaluation.history import History
from memgrow.methods import MethodSettings, find_method
from memgrow.methods.rehearsal import pack_rows, unpack_rows
from memgrow.models import Model, ModelSettings, check_numbers, rebuild, settings_from_json
from memgrow.models.base import CAUSAL
from memgrow.models.hub import CHAT, EncoderFiles
from memgrow.storage.folder import ModelFolder, VersionFolder, read_settled
from memgrow.training.checks import check_examples
from memgrow.training.settings import LearnerConfig, LearnerState, TrainingSettings

CONFIG = "config.json"  # settings and shape, from which the model is built
VOCABULARY = "vocabulary.json"
HISTORY = "history.json"
MODEL = "model.safetensors"  # all weights that are in no other file
BASE = "base.safetensors"  # weights of a pretrained encoder; versions share the file while most of it is unchanged
ROUTER = "router.safetensors"  # the encoder by which a domain memory is read: never changed, shared by versions
ENTRY = "entry-{:04}.safetensors"  # an entry of a domain memory, shared likewise; some models have all in MODEL
ENCODER = "encoder.json"  # configuration of a pretrained encoder, as transformers reads it
TOKENIZER = "tokenizer.json"  # its tokenizer, as the package tokenizers reads it
METHOD = "remembered.safetensors"  # state of the method, if it has any
CALIBRATION = "calibration.json"
DRIFT = "drift.json"  # statistics of each domain's texts
REHEARSAL = "rehearsal.json"  # rows of earlier domains, if the method keeps any

BASE_SHARE = 0.5  # of a base's bytes that must be unchanged for it to be shared
MAX_MESSAGE = 300  # characters that an error repeats of a file's content
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)  # of unexpected values

Summary = TypeVar("Summary", Calibration, Reference)


# Writing


def write_files(folder: Path, config: LearnerConfig, state: LearnerState, earlier: Sequence[Path] = ()) -> None:
    """Write a version to an empty folder. Files that those of `earlier` versions have as well are shared."""
    if state.model is None:
        raise ModelError("this learner has learned nothing yet: give it a domain with `adapt` first")
    check_numbers(state.model, state.model.state_dict())
    summaries: dict[str, Any] = {CALIBRATION: state.calibration, DRIFT: state.reference}
    noted = {name: one.to_json() for name, one in summaries.items() if one.domains}
    settings = {
        "method": config.method.name,
        "task": state.task,
        "labels": state.labels,
        "labels_by_domain": state.history.labels,
        "seed": config.seed,
        "model": config.model.to_json(),
        "training": asdict(config.training),
        "options": asdict(config.options),
        "shape": state.model.shape(),
        "noted": list(noted),
        **({"word_vectors": config.vectors.to_json()} if config.vectors else {}),
        **({"licences": list(config.encoder.licences)} if config.encoder else {}),
    }
    values = {
        CONFIG: settings,
        VOCABULARY: state.vocabulary.to_json(),
        HISTORY: state.history.to_json(),
        **noted,
        **({REHEARSAL: pack_rows(state.method_state.rows)} if config.method.keeps_rows else {}),
    }
    texts = {name: pack_json(value) for name, value in values.items()}
    if config.encoder is not None:
        own = {**config.encoder.licences, ENCODER: config.encoder.config, TOKENIZER: config.encoder.tokenizer}
        if config.encoder.chat is not None:
            own[CHAT] = config.encoder.chat
        texts |= {name: text.encode() for name, text in own.items()}
    for name, text in texts.items():
        _write_text(folder / name, text, earlier)
    if tensors := state.method_state.state_dict():
        save_tensors(folder / METHOD, tensors)
    _write_weights(folder, state.model, earlier)


def _write_weights(folder: Path, model: Model, earlier: Sequence[Path]) -> None:
    files: dict[str, dict[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        files.setdefault(_file_of(name, model.settings), {})[name] = tensor
    rest = files.pop(MODEL, {})
    for file, tensors in files.items():
        shared = _write_shared(folder / file, tensors, earlier, BASE_SHARE if file == BASE else 1.0)
        rest |= {name: tensor for name, tensor in tensors.items() if name not in shared}
    save_tensors(folder / MODEL, rest)


def _file_of(name: str, settings: ModelSettings) -> str:
    """The file of a tensor by its name in a model's state dict."""
    module, _, own = name.partition(".")
    if module == "memory":
        number, is_entry, _ = own.partition(":")
        return ENTRY.format(int(number) + 1) if is_entry else ROUTER
    return BASE if module == "encoder" and settings.is_pretrained else MODEL


def _write_text(file: Path, content: bytes, earlier: Iterable[Path]) -> None:
    """Write a file, or link to an earlier one with this content."""
    for other in (folder / file.name for folder in earlier):
        if other.is_file() and other.read_bytes() == content:
            link_or_copy(other, file)
            return
    write_new(file, content)


def _write_shared(file: Path, tensors: Mapping[str, Tensor], earlier: Iterable[Path], least: float) -> Collection[str]:
    """Write tensors to a file, or link to an earlier one of which at least this share of bytes is the same.

    Returns the names of those that the file has.
    """
    for other in (folder / file.name for folder in earlier):
        try:
            stored = load_tensors(other)
        except (OSError, ModelError):  # missing or damaged
            continue
        same = {name for name, tensor in stored.items() if name in tensors and _same_bits(tensor, tensors[name])}
        total = sum(one.nbytes for one in {**stored, **tensors}.values())
        if sum(stored[name].nbytes for name in same) >= least * total:
            link_or_copy(other, file)
            return same
    save_tensors(file, tensors)
    return tensors.keys()


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    ours, theirs = (tensor.detach().cpu().contiguous().flatten().view(torch.uint8) for tensor in (one, other))
    return torch.equal(ours, theirs)


# Reading


def read_checkpoint(
    path: str | Path, device: torch.device, model: ModelSettings | None = None, version: int | None = None
) -> tuple[LearnerConfig, LearnerState]:
    """Read a model; with a `version`, as it was after that many stages.

    `model` replaces settings that have had no effect yet.
    """

    def read(folder: ModelFolder) -> tuple[LearnerConfig, LearnerState]:
        return read_files(find_version(folder, version), device, model)

    return read_settled(path, read)


def find_version(folder: ModelFolder, version: int | None) -> VersionFolder:
    """The current version, or the one after that many stages."""
    if version is None:
        return folder.versions[0]
    numbers = [len(read_stages(one)) for one in folder.versions]
    if version not in numbers:
        kept = ", ".join(str(number) for number in sorted(numbers) if number)
        raise ModelError(f"{folder.path} keeps no version after stage {version}: it keeps {kept or 'none'}")
    return folder.versions[numbers.index(version)]


def read_stages(version: VersionFolder) -> list[tuple[str, str]]:
    """The fingerprint and the domains of each stage; none if the history is damaged."""
    try:
        stages = version.json(HISTORY)["stages"]
        return [(str(stage["fingerprint"]), " and ".join(stage["learned"])) for stage in stages]
    except (*DAMAGED, OSError):
        return []


def find_faults(path: str | Path) -> list[str]:
    """What is wrong with a model and its earlier versions, one line each; empty if all can be loaded."""

    def find(folder: ModelFolder) -> list[str]:
        found = []
        for number, version in enumerate(folder.versions):
            prefix = f"earlier version {len(read_stages(version)) or version.name}: " if number else ""
            found += [f"{prefix}{fault}" for fault in _faults_of(version)]
        if found and folder.raw != ModelFolder.read(path).raw:
            raise ModelError("replaced meanwhile")  # and read again
        return found

    try:
        return read_settled(path, find)
    except ModelError as error:
        return [str(error)]


def _faults_of(version: VersionFolder) -> list[str]:
    try:
        if faults := version.faults():
            return faults
        read_files(version, torch.device("cpu"))
    except (MemgrowError, OSError) as error:
        return [str(error)]
    return []


def read_files(
    version: VersionFolder, device: torch.device, model_settings: ModelSettings | None = None
) -> tuple[LearnerConfig, LearnerState]:
    """Check and read the files of a version; a ModelError if they do not make a model."""
    version.check()
    try:
        return _read_files(version, device, model_settings)
    except (MissingExtraError, ModelError, OSError):
        raise
    except (SafetensorError, *DAMAGED) as error:  # SettingsError: of the folder's own configuration
        said = str(error) if isinstance(error, SettingsError) else brief(error)
        said = said if len(said) <= MAX_MESSAGE else f"{said[:MAX_MESSAGE]}..."
        raise ModelError(f"{version.path} is not a model that this memgrow understands: {said}") from error


def _read_files(
    version: VersionFolder, device: torch.device, model_settings: ModelSettings | None
) -> tuple[LearnerConfig, LearnerState]:
    settings = version.json(CONFIG)
    config = LearnerConfig(
        find_method(settings["method"], retired=True),
        model_settings or settings_from_json(settings["model"]),
        TrainingSettings(**settings["training"]),
        MethodSettings.from_json(settings["options"]),
        settings["seed"],
        _read_encoder(version, settings) if ENCODER in version else None,
        RememberedVectors.from_json(settings),
    )
    labels, history, task, shape = tuple(settings["labels"]), read_history(version), settings["task"], settings["shape"]
    check_types(CONFIG, config.model, config.training, config.options)
    if wrong_part(labels, tuple[str, ...], "labels") or len(set(labels)) != len(labels) or type(config.seed) is not int:
        raise ValueError(f"{CONFIG}: labels or seed")
    if config.model.is_pretrained and config.encoder is None:
        raise ValueError(f"{ENCODER} is missing")
    files = sorted(name for name in version.sha256 if name.endswith(TENSORS) and name != METHOD)
    stored = version.shapes(*files)
    model = rebuild(task, config.model, len(labels), shape, files=config.encoder, stored=stored)
    vocabulary = Vocabulary.from_json(version.json(VOCABULARY))
    if shape.get("words", len(vocabulary)) != len(vocabulary):
        raise ValueError(f"{VOCABULARY} has {len(vocabulary):,} words, and {CONFIG} {shape['words']:,}")
    known = model.state_dict().keys()
    tensors: dict[str, Tensor] = {}
    for name in files:  # the base before the model, which has what has changed
        tensors |= {n: t for n, t in version.tensors(name).items() if n in known}
    check_numbers(model, tensors)
    model.load_state_dict(tensors)
    model.encoder.check()
    config.tokenize([Example("a", "a" if task == "pair" else None)])  # special tokens may leave no room for words
    method_state = config.method.create(config.options)
    method_state.load_state_dict({name: tensor.to(device) for name, tensor in version.tensors(METHOD).items()})
    method_state.check_state(bool(history.stages))
    if config.method.keeps_rows:
        rows = unpack_rows(version.json(REHEARSAL))
        for domain, examples in rows.items():
            if domain not in history.domains:
                raise ValueError(f"{REHEARSAL}: there is no domain {domain}")
            check_examples(examples, task, labels)
        method_state.load_rows(rows)
    noted = settings.get("noted", [])
    calibration = _read_summary(version, CALIBRATION, Calibration, CALIBRATION in noted)
    reference = _read_summary(version, DRIFT, Reference, DRIFT in noted)
    known_so_far = (task, labels, model.to(device), vocabulary, method_state, history)
    return config, LearnerState(*known_so_far, calibration, reference)


def read_history(version: VersionFolder) -> History:
    history = History.from_json(version.json(HISTORY), version.json(CONFIG).get("labels_by_domain"))
    check_types(HISTORY, history)
    if [row.learned for row in history.matrix.rows] != [stage.learned for stage in history.stages]:
        raise ValueError(f"{HISTORY}: the matrix has other rows than stages")
    return history


def check_types(name: str, *values: Any) -> None:
    """Refuse dataclasses whose fields have other types than declared, since JSON may hold anything."""
    for value in values:
        if wrong := wrong_part(value, type(value), name):
            raise ValueError(f"{wrong} has the wrong type")


def _read_summary(version: VersionFolder, name: str, kind: type[Summary], expected: bool) -> Summary:
    """What was noted of each domain's data; empty in models of earlier memgrows."""
    if name not in version and not expected:
        return kind()
    summary = kind.from_json(version.json(name))
    check_types(name, summary)
    return summary


def _read_encoder(version: VersionFolder, settings: Mapping[str, Any]) -> EncoderFiles:
    model = settings["model"]
    licences = {name: version.text(name) for name in settings["licences"]}
    texts = version.text(ENCODER), version.text(TOKENIZER)
    chat = version.text(CHAT) if model["cell"] == CAUSAL else None
    return EncoderFiles(model["encoder"], *texts, model["weights"], licences, chat=chat)
