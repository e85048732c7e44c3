"""How far a training has come: shown step by step, and saved in the model's folder, so that it resumes after a kill."""

import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from torch import Tensor

from memgrow.data.disk import TRAINING, load_tensors, read_metadata, save_tensors, sync_folder, wrong_part
from memgrow.errors import MemgrowError, ModelError, SettingsError, brief
from memgrow.evaluation.history import Curve
from memgrow.nn import distributed
from memgrow.nn.device import is_out_of_memory


@dataclass(frozen=True)
class Step:
    """Progress of training; without loss and accuracy, of reading texts."""

    domain: str
    epoch: int  # from 1
    epochs: int  # at most
    batch: int  # of the epoch, done; where texts are read, their tokens
    batches: int
    loss: float | None = None  # mean of this epoch so far
    accuracy: float | None = None  # on this epoch's training batches so far
    validation: float | None = None  # the best so far
    validated: float | None = None  # at the end of an epoch, its own score


class Progress(Protocol):
    """Shows steps and notes: a bar, a log, a page."""

    def step(self, step: Step) -> None: ...
    def note(self, sentence: str) -> None: ...


class PlainProgress:
    def step(self, step: Step) -> None:
        if step.loss is not None and step.batch == step.batches:
            self.note(f"{step.domain}: epoch {step.epoch}/{step.epochs}, loss {step.loss:.3f}")

    def note(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)


class NoProgress:
    """Shows nothing; `warn` raises a Python warning instead."""

    def step(self, step: Step) -> None: ...
    def note(self, sentence: str) -> None: ...


def find_progress(progress: Progress | bool | None) -> Progress:
    """The progress that a caller asks for: an object, True for a default one, None or False for none.

    Of several processes the first one shows it.
    """
    if progress is None or progress is False or not distributed.is_first():
        return NoProgress()
    if progress is True:
        return PlainProgress()
    if not (callable(getattr(progress, "step", None)) and callable(getattr(progress, "note", None))):
        raise SettingsError(f"progress must be True or have methods step and note, not {type(progress).__name__}")
    return progress


def warn(progress: Progress, sentence: str) -> None:
    """Show a note that should not be missed; without progress it is a Python warning at the caller's line."""
    if type(progress).note is not NoProgress.note:
        progress.note(sentence)
        return
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "memgrow":
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, stacklevel=level)


STATE = "state.safetensors"  # tensors, and the training state as metadata
UNREADABLE = (OSError, SafetensorError, LookupError, TypeError, ValueError, AttributeError, RuntimeError)


@dataclass(frozen=True)
class TrainState:
    """How far a training has come."""

    epoch: int = 0
    batch: int = 0  # of this epoch, done
    loss: float = 0.0  # summed over this epoch's examples so far
    correct: float = 0.0
    seen: int = 0
    best: float = -1.0  # validation score
    best_epoch: int = 0
    seconds: float = 0.0
    curve: Curve = field(default_factory=Curve)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TrainState":
        """What `asdict` made JSON of."""
        state = cls(**{**value, "curve": Curve.from_json(value.get("curve", {}))})
        if (wrong := wrong_part(state, cls, "state")) or not min(state.epoch, state.batch, state.best) >= -1:
            raise ValueError(wrong or "a number is out of range")
        return state

    def after_epoch(
        self, score: float, seconds: float, loss: float | None = None, newest: bool = False
    ) -> "TrainState":
        """The state at the beginning of the next epoch, once this one has been validated; `newest`: it is the best."""
        curve = self.curve.then(loss, score)
        new = TrainState(self.epoch + 1, best=self.best, best_epoch=self.best_epoch, seconds=seconds, curve=curve)
        return replace(new, best=score, best_epoch=new.epoch) if newest or score > self.best else new


class UnfinishedError(ModelError):
    """An unfinished training that cannot be resumed: another one, or damaged."""


class ResumeFolder:
    """Saves an unfinished training in the folder `training` of a model's folder; with None nothing is saved.

    `stage` is the number of stages before this training. `key` identifies it: the state of another one is refused. Of
    several processes the first one saves.
    """

    def __init__(self, model: str | Path | None, stage: int, key: Mapping[str, str], every: float) -> None:
        self.folder = Path(os.path.realpath(model)) / TRAINING if model is not None and distributed.is_first() else None
        self.stage, self.key, self.every = stage, dict(key), every
        self._saved = time.monotonic()

    @property
    def is_unfinished(self) -> bool:
        """Whether there is a training to resume."""
        return self.folder is not None and (self.folder / STATE).exists()

    def due(self) -> bool:
        return self.folder is not None and time.monotonic() - self._saved >= self.every

    def save(self, train_state: TrainState, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Keep where a training stands: its state, its tensors, and the random number generators."""
        assert self.folder is not None
        rng_state = {"rng_state/cpu": torch.get_rng_state()}
        if device.type == "cuda":
            rng_state["rng_state/cuda"] = torch.cuda.get_rng_state()
        state = {"stage": self.stage, "key": self.key, "train_state": asdict(train_state)}
        temporary = self.folder / "state.writing"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_tensors(temporary, {**tensors, **rng_state}, {"state": json.dumps(state)})
            temporary.replace(self.folder / STATE)
            sync_folder(self.folder)
        except OSError as error:
            reason = error.strerror or error
            raise ModelError(f"cannot save the training to {self.folder} ({reason}): make room") from error
        self._saved = time.monotonic()

    def _read(self) -> dict[str, Any] | None:
        """The state that was saved, if there is one and its training has not ended and been saved since."""
        if self.folder is None or not self.folder.exists():
            return None
        state = json.loads(read_metadata(self.folder / STATE)["state"]) if self.is_unfinished else None
        if state is None or state["stage"] < self.stage:
            self.clear()
            return None
        return dict(state)

    def restore(self) -> tuple[TrainState, dict[str, Tensor]] | None:
        """Restore the random number generators and return what `save` was given; None if there is nothing to resume."""
        keys, found = zip(*distributed.exchange((self.key, self._restore())), strict=True)
        for name in self.key:
            if len({key[name] for key in keys}) > 1:
                raise SettingsError(f"the processes have different {name}: give all the same files, model and settings")
        first: tuple[TrainState, dict[str, Tensor]] | None = found[0]
        return first

    def _restore(self) -> tuple[TrainState, dict[str, Tensor]] | None:
        try:
            if self.folder is None or (state := self._read()) is None:
                return None
            for name, ours in self.key.items():
                if state["key"].get(name) != ours:
                    raise UnfinishedError(
                        f"{self.folder} holds an unfinished training with another {name}: run that command again, "
                        "or remove that folder to give it up"
                    )
            tensors = load_tensors(self.folder / STATE)
            train_state, rng_state = TrainState.from_json(state["train_state"]), under(tensors, "rng_state")
            torch.set_rng_state(rng_state["cpu"])
            if "cuda" in rng_state:
                torch.cuda.set_rng_state(rng_state["cuda"])
            return train_state, tensors
        except UNREADABLE as error:
            raise self.unusable(error) from error

    def clear_ended(self) -> None:
        """Remove what is left of a training that was saved; its process was killed before it did so."""
        with suppress(*UNREADABLE):  # reported when it is needed
            self._read()

    def unusable(self, error: Exception) -> Exception:
        """The error to raise: a MemgrowError or out of memory as it is, any other as an UnfinishedError."""
        if isinstance(error, MemgrowError) or is_out_of_memory(error):
            return error
        return UnfinishedError(
            f"{self.folder} holds a training that cannot be resumed ({brief(error)}): remove that folder to start over"
        )

    def clear(self) -> None:
        """The training has ended and its result is saved."""
        if self.folder is not None:
            (self.folder / STATE).unlink(missing_ok=True)  # the rest means nothing without it
            shutil.rmtree(self.folder, ignore_errors=True)


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with prefix/, without it."""
    return {name.removeprefix(prefix + "/"): t for name, t in tensors.items() if name.startswith(prefix + "/")}
