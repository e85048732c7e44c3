"""Runs that are broken off, and a choice of the epoch whose weights a run ends with."""

import itertools
import sys
from collections.abc import Callable, Mapping

import pytest

from memgrow.training.progress import NoProgress, Step, TrainState

FIRST, LAST = "first", "last"
# The n-th verdict of a test: worse, or better, than all before it.
VERDICTS: Mapping[str, Callable[[int], float]] = {FIRST: lambda n: 1 / (1 + n), LAST: lambda n: 1 - 1 / (1 + n)}


class PulledPlug(Exception):  # noqa: N818
    pass


ADVICE = (
    "no better than always predicting",
    "are unknown to the model",
)  # of most models that tests have time to train


class Plug(NoProgress):
    """Hears everything but advice, and pulls the plug after this many reports."""

    def __init__(self, reports: int = sys.maxsize) -> None:
        self.left = reports
        self.steps: list[Step] = []
        self.notes: list[str] = []

    def step(self, step: Step) -> None:
        self.steps.append(step)
        self.left -= 1
        if self.left < 0:
            raise PulledPlug

    def note(self, sentence: str) -> None:
        if not any(words in sentence for words in ADVICE):
            self.notes.append(sentence)


def keep_epoch(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let validation fall or rise from epoch to epoch, so that the first or the last one is kept.

    Only with the last does a run's end show all that was learnt; only with the first, that the best was not lost.
    """
    verdict = map(VERDICTS[which], itertools.count(1))
    after_epoch = TrainState.after_epoch

    def judged(self: TrainState, score: float, *given: float) -> TrainState:
        return after_epoch(self, next(verdict), *given)

    monkeypatch.setattr(TrainState, "after_epoch", judged)
