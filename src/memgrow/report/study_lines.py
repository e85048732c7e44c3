"""A log of a study's runs: a line for each job that has ended, for a terminal or a file."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable

from memgrow.experiments.grid import Outcome
from memgrow.experiments.plan import Job, Result
from memgrow.progress import Step


def say(sentence: str) -> None:
    """Write a line at once, also where it goes to a file."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


class StudyLines:
    """Watches a grid. `describe` makes sentences of a job's result; `about` stands before all that is said."""

    def __init__(self, describe: Callable[[Result], Iterable[str]], about: str = "") -> None:
        self.describe, self.about = describe, f"{about}: " if about else ""
        self.jobs, self.ended, self.started = 0, 0, time.monotonic()

    def begin(self, jobs: int, work: float) -> None:
        self.jobs = jobs
        say(f"{self.about}{jobs} jobs to be done, {work:,.0f} examples")

    def start(self, job: Job, where: str) -> None:
        return

    def step(self, job: Job, step: Step) -> None:
        return

    def note(self, sentence: str) -> None:
        say(f"note: {sentence}")

    def end(self, result: Result) -> None:
        self.ended += 1
        passed = time.monotonic() - self.started
        for sentence in self.describe(result):
            say(f"{passed:6.0f} s  {self.ended:4}/{self.jobs}  {self.about}{sentence}")


def whole_runs(outcome: Outcome, runs: int) -> str:
    """How many of the runs are whole, and why others are not."""
    reasons = Counter(failure.reason for failure in outcome.failures)
    told = "".join(f"; {number}: {reason}" for reason, number in reasons.items())
    return f"{len(outcome.records)} of {runs} runs are whole{told}"
