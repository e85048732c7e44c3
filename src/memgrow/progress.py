"""Progress: steps and sentences from a long piece of work for the person who waits for it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Step:
    """The point at which training stands; without loss and accuracy, that of reading texts."""

    domain: str
    epoch: int  # from 1
    epochs: int  # at most
    batch: int  # of the epoch, done; where texts are read, their tokens
    batches: int
    loss: float | None = None  # mean of this epoch so far
    accuracy: float | None = None  # on this epoch's training batches so far
    validation: float | None = None  # the best so far


class Progress(Protocol):
    """Anything that can show steps and say sentences: a bar, a log, a page."""

    def step(self, step: Step) -> None: ...
    def note(self, sentence: str) -> None: ...


class NoProgress:
    """Shows nothing."""

    def step(self, step: Step) -> None:
        return

    def note(self, sentence: str) -> None:
        return
