"""A watcher of a grid that remembers what happened, and what two outcomes are compared by."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from memgrow.experiments.grid import Outcome
from memgrow.experiments.plan import Job, Result
from memgrow.experiments.run import Record, Run
from memgrow.progress import Step


@dataclass
class Witness:
    """A watcher that remembers everything; `on_end` and `on_step` may interfere."""

    begun: list[tuple[int, float]] = field(default_factory=list)
    ended: list[Result] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    places: dict[Job, str] = field(default_factory=dict)
    on_end: Callable[[Result], None] = lambda _: None
    on_step: Callable[[Job], None] = lambda _: None

    def begin(self, jobs: int, work: float) -> None:
        self.begun.append((jobs, work))

    def start(self, job: Job, where: str) -> None:
        self.places[job] = where

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


def without_seconds(outcome: Outcome) -> dict[Run, list[Record]]:
    """All that two outcomes of the same runs have in common."""
    return {
        run: [replace(record, stage=replace(record.stage, seconds=0.0)) for record in records]
        for run, records in outcome.records.items()
    }
