"""Progress of training: a protocol with two methods, and its implementations for scripts and notebooks."""

import sys
import warnings
from dataclasses import dataclass
from typing import Protocol

from memgrow.errors import SettingsError


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
