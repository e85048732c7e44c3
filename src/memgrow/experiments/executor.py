"""Where jobs are done: the interface behind which the processes of this machine and the nodes of a cluster stand."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import torch

from memgrow.device import allow_tf32
from memgrow.experiments.job import WorkerContext
from memgrow.experiments.plan import Job, Result
from memgrow.progress import Step

ON_A_GPU = 4  # jobs that share one: more wait for each other
REPORT_EVERY_S = 1.0  # at most, by one job


@dataclass(frozen=True)
class Started:
    """Says that a job has begun, and the node that does it."""

    where: str


Said = Step | Started | str
Report = Callable[[Job, Said], None]
"""Takes what a job says while it is done: where it has begun, how far training is, or a sentence."""


class Executor(Protocol):
    """Does jobs side by side. Use it in a `with`: what is under way at its end is given up."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    @property
    def free(self) -> bool:
        """Whether a job that is submitted now can begin now."""

    def submit(self, job: Job) -> None:
        """Begin a job. What it makes is in the store by the time that its result is told."""

    def results(self) -> list[Result]:
        """At least one result of what is under way; none if nothing is."""


class Backend(Protocol):
    """The machines that executors run on. Use it in a `with`."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    @property
    def about(self) -> str:
        """A sentence for the user about the machines; empty if there is nothing to say."""

    def device(self, asked: str) -> str:
        """The device that jobs run on, cpu or cuda, where somebody has `asked` for auto, cpu or cuda."""

    def executor(
        self, context: WorkerContext, report: Report, jobs: int, work: float, workers: int | None = None
    ) -> Executor:
        """One that is going to do about so many jobs, which learn from `work` examples in all.

        It does at most `workers` of them at a time; None: as many as suit.
        """


@dataclass
class Reporter:
    """Passes on what a training tells: every sentence, and a step at most every `every_s` seconds."""

    send: Callable[[Step | str], None]
    every_s: float = 0.0
    sent_at: float = 0.0

    def step(self, step: Step) -> None:
        if time.monotonic() - self.sent_at >= self.every_s:
            self.sent_at = time.monotonic()
            self.send(step)

    def note(self, sentence: str) -> None:
        self.send(sentence)


def set_threads(device: str) -> None:
    """On a CPU one thread to a job: what a seed gives must not depend on how many workers there are."""
    if device == "cpu":
        torch.set_num_threads(1)
    allow_tf32(torch.device(device))
