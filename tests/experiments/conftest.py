"""A grid's watcher that remembers what it was told, and runs that take a moment."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from memgrow.experiments.attempt import Result
from memgrow.experiments.plan import Job
from memgrow.experiments.run import Run
from memgrow.progress import Step


@dataclass
class Witness:
    """Remembers everything; `on_end` and `on_step` may interfere."""

    begun: list[tuple[int, float]] = field(default_factory=list)
    ended: list[Result] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    on_end: Callable[[Result], None] = lambda _: None
    on_step: Callable[[Job], None] = lambda _: None

    def begin(self, jobs: int, work: float) -> None:
        self.begun.append((jobs, work))

    def step(self, job: Job, step: Step) -> None:
        self.on_step(job)

    def end(self, result: Result) -> None:
        self.ended.append(result)
        self.on_end(result)

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    @property
    def made(self) -> list[Run]:
        """The stages that were made, whichever way they ended."""
        return [task.run for result in self.ended for task in result.job.tasks]


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture(scope="session")
def runs(stream, tiny, short) -> Callable[..., list[Run]]:
    """Runs of these methods over the whole stream."""

    def make(*methods: str, seeds: int = 1) -> list[Run]:
        return [Run(method, stream.names, seed, tiny, short) for method in methods for seed in range(seeds)]

    return make
