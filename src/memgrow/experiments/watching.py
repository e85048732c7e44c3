"""What a grid tells the person who waits for it."""

from typing import Protocol

from memgrow.experiments.attempt import Result
from memgrow.experiments.plan import Job
from memgrow.progress import Step


class Watcher(Protocol):
    """Anything that can show how far a grid is: a bar, a log, a page."""

    def begin(self, jobs: int, work: float) -> None:
        """So much is to be done."""

    def step(self, job: Job, step: Step) -> None:
        """So far is the training of a job."""

    def end(self, result: Result) -> None:
        """A job has ended, well or not."""

    def note(self, sentence: str) -> None:
        """Something that a user should know."""


class Unwatched:
    """Shows nothing."""

    def begin(self, jobs: int, work: float) -> None:
        return

    def step(self, job: Job, step: Step) -> None:
        return

    def end(self, result: Result) -> None:
        return

    def note(self, sentence: str) -> None:
        return
