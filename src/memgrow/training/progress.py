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

    def step(self, step: Step) -> None:
        return

    def note(self, sentence: str) -> None:
        return


def find_progress(progress: Progress | bool | None) -> Progress:
    """The progress that a caller asks for: an object, True for a default one, None or False for none."""
    if progress is None or progress is False:
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


SAVING_SHARE = 0.1  # largest share of the training time that saving after epochs may take
BYTES_PER_S = 2e8  # expected speed of the first save
STATE = "state.safetensors"  # tensors, and the training state as metadata


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
    """Saves an unfinished training in a folder; with None nothing is saved.

    `key` identifies the training: the state of another one is refused.
    """

    def __init__(self, folder: Path | None, stage: int, key: Mapping[str, str], every: float) -> None:
        self.folder = folder
        self.stage = stage  # number of stages before this training
        self.key = dict(key)
        self.every = every
        self._saved = time.monotonic()
        self._took = 0.0  # seconds of the last save

    @classmethod
    def in_model(cls, model: str | Path | None, stage: int, key: Mapping[str, str], every: float) -> "ResumeFolder":
        """The folder `training` in a model's folder; with None nothing is saved."""
        place = None if model is None else Path(os.path.realpath(model)) / TRAINING
        return cls(place, stage, key, every)

    @property
    def is_unfinished(self) -> bool:
        """Whether there is a training to resume."""
        return self.folder is not None and (self.folder / STATE).exists()

    def due(self) -> bool:
        return self.folder is not None and time.monotonic() - self._saved >= self.every

    def due_after_epoch(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether to save after an epoch: sooner, but not after each short epoch of a large model."""
        takes = max(self._took, sum(tensor.nbytes for tensor in tensors.values()) / BYTES_PER_S)
        return self.folder is not None and time.monotonic() - self._saved >= min(self.every, takes / SAVING_SHARE)

    def save(self, train_state: TrainState, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Keep where a training stands: its state, its tensors, and the random number generators."""
        assert self.folder is not None
        began = time.monotonic()
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
        self._took = self._saved - began

    def restore(self) -> tuple[TrainState, dict[str, Tensor]] | None:
        """Restore the random number generators and return what `save` was given; None if there is nothing to resume."""
        if self.folder is None or not self.is_unfinished:
            return None
        path = self.folder / STATE
        try:
            state = json.loads(read_metadata(path)["state"])
            if state["stage"] < self.stage:  # that training has ended and was saved
                self.clear()
                return None
            for name, ours in self.key.items():
                if state["key"].get(name) != ours:
                    raise UnfinishedError(
                        f"{self.folder} holds an unfinished training with another {name}: run that command again, "
                        "or remove that folder to give it up"
                    )
            tensors = load_tensors(path)
            train_state, rng_state = TrainState.from_json(state["train_state"]), under(tensors, "rng_state")
            torch.set_rng_state(rng_state["cpu"])
            if "cuda" in rng_state:
                torch.cuda.set_rng_state(rng_state["cuda"])
            return train_state, tensors
        except (OSError, SafetensorError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise self.unusable(error) from error

    def clear_ended(self) -> None:
        """Remove what is left of a training that was saved; its process was killed before it did so."""
        if self.folder is None or not self.folder.exists():
            return
        if not (self.folder / STATE).exists():
            self.clear()
            return
        with suppress(OSError, SafetensorError, LookupError, TypeError, ValueError):  # reported when it is needed
            if json.loads(read_metadata(self.folder / STATE)["state"])["stage"] < self.stage:
                self.clear()

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
