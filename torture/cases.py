"""The runs of `memgrow adapt` that are broken off: kinds of models and methods, and kinds of places."""

import errno
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memgrow.checkpoint import FORMAT, HISTORY
from memgrow.folder_reader import read_folder
from memgrow.folders import put_aside
from memgrow.manifest import MANIFEST, Manifest

from memgrow import folders, locking
from memgrow.data import synthetic_dialogue, synthetic_stream, write_jsonl
from memgrow.training.resume import ResumeFolder
from tests.support.tiny_encoder import make_encoder

DOMAINS, EPOCHS = 3, 3
SMALL = ("epochs=3", "batch=16", "patience=9")
TINY = ("hidden=5", "embedding=6", "model.slots=4", "perceptron=16", *SMALL)
TALK = ("embedding=8", "hidden=12", "model.slots=4", "cell=gru", "bidirectional=false", *SMALL)


@dataclass(frozen=True)
class Place:
    """A kind of place for a model: what is done in the process that writes there, given the model's path."""

    name: str
    prepare: Callable[[Path], None] = lambda path: None


@dataclass(frozen=True)
class Case:
    """A command that makes a model of several domains, in a kind of place."""

    name: str
    words: tuple[str | Path, ...]
    place: Place

    def command(self, model: Path, *more: str) -> list[str | Path]:
        return ["adapt", model, *self.words, "--device", "cpu", *more]


def _save_after_each_step(path: Path) -> None:
    beside = ResumeFolder.beside

    def eager(model: Any, stage: int, key: Mapping[str, str], every: float) -> ResumeFolder:
        return beside(model, stage, key, 0.0)

    ResumeFolder.beside = eager  # type: ignore[method-assign]


def _no_exchange(path: Path) -> None:
    folders.exchange = lambda a, b: False


def _fixed(path: Path) -> None:
    """As a mount point is."""
    path, rename, exchange = Path(os.path.realpath(path)), folders.rename, folders.exchange

    def busy(old: Path, new: Path) -> None:
        if path in (old, new):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        rename(old, new)

    folders.rename = busy
    folders.exchange = lambda a, b: path not in (a, b) and exchange(a, b)
    path.mkdir(exist_ok=True)  # a mount point is there before the model


def _no_locks(path: Path) -> None:
    def without(file: int, operation: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    locking.fcntl.flock = without  # type: ignore[attr-defined]


USUAL = Place("a usual place")
EAGER = Place("saved after each step", _save_after_each_step)
RENAMED = Place("a place where names cannot be exchanged", _no_exchange)
FIXED = Place("a folder that cannot be replaced", _fixed)
NO_LOCKS = Place("a file system without locks", _no_locks)
PLACES = (EAGER, RENAMED, FIXED, NO_LOCKS)


def make_cases(folder: Path) -> list[Case]:
    """Write data and an encoder below the folder: every kind of model in a usual place, one of each in the others."""
    pairs = write_jsonl(synthetic_stream(domains=DOMAINS, train=48, validation=24, test=24, seed=3), folder / "pairs")
    talks = _write_dialogue(folder / "talks")
    encoder: tuple[str | Path, ...] = ("--encoder", make_encoder(folder / "encoder"), *settings(*SMALL))
    slots = settings("options.slots=8", "memory_layers=1,2")
    kinds: dict[str, tuple[str | Path, ...]] = {
        "BiLSTM, F+M+V": (*pairs, "--method", "F+M+V", *settings(*TINY)),
        "encoder, F+A": (*pairs, *encoder),
        "BiLSTM, EWC": (*pairs, "--method", "EWC", *settings(*TINY)),
        "encoder, frozen+M": (*pairs, *encoder, "--method", "frozen+M", *slots),
        "replies, F+M+V": (*talks, "--method", "F+M+V", *settings(*TALK)),
        "encoder, LoRA": (*pairs, *encoder, "--method", "LoRA"),
        "BiLSTM, no versions kept": (*pairs, "--method", "F+M+V", "--keep-versions", "0", *settings(*TINY)),
        "encoder, all versions kept": (*pairs, *encoder, "--keep-versions", "5"),
    }
    usual = [Case(name, words, USUAL) for name, words in kinds.items()]
    names = list(kinds)[:2]
    return [*usual, *(Case(name, kinds[name], place) for place in PLACES for name in names)]


def settings(*values: str) -> tuple[str, ...]:
    """The options that set these."""
    return tuple(word for one in values for word in ("--set", one))


def _write_dialogue(folder: Path) -> list[Path]:
    folder.mkdir()
    paths = []
    for domain in synthetic_dialogue(train=48, validation=16, test=16):
        for part in ("train", "validation", "test"):
            rows = [{"message": one.text, "response": one.reply} for one in getattr(domain, part)]
            paths.append(folder / f"{domain.name}_{part}.jsonl")
            paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths


# What a model is


def bits(model: Path) -> dict[str, bytes]:
    """All files of a model and of the earlier versions that it keeps, without the times that a history tells."""
    found: dict[str, bytes] = {}
    for number in (None, *Manifest.of(model).earlier):
        for name, content in read_folder(model, FORMAT, number=number).items():
            assert isinstance(content, bytes)
            found[name if number is None else f"{number}/{name}"] = _timeless(content) if name == HISTORY else content
    return found


def _timeless(content: bytes) -> bytes:
    history = json.loads(content)
    for stage in history["stages"]:
        del stage["seconds"], stage["date"]
    return json.dumps(history).encode()


def learnt(model: Path) -> int:
    """How many domains a model has learnt; 0 if there is none. A damaged one is an error."""
    folder = model if model.exists() else put_aside(model)
    if folder is None or not (folder / MANIFEST).exists():
        return 0
    content = read_folder(model, FORMAT)[HISTORY]
    assert isinstance(content, bytes)
    return len(json.loads(content)["stages"])


def leftovers(model: Path) -> list[str]:
    """What stands beside a model, and within one that cannot be replaced, when nobody is at work."""
    beside = [path.name for path in model.parent.iterdir() if path.name != model.name]
    within = [path.name for path in model.iterdir() if path.name.startswith(".") or path.name == folders.ADAPTING]
    return sorted(beside + within + unnamed_versions(model))


def unnamed_versions(model: Path) -> list[str]:
    """Versions within a model that its manifest does not name: nobody reads them."""
    manifest = Manifest.of(model)
    named = {one.folder for one in (manifest, *manifest.earlier.values())}
    return [path.name for path in model.glob("version-*") if path.name not in named]
