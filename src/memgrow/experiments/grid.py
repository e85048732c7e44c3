"""The grid: many runs, each stage of them made once, side by side, and never again once it is finished."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from memgrow.data import Stream
from memgrow.data.domain import file_fingerprint
from memgrow.device import find_device
from memgrow.errors import SettingsError
from memgrow.experiments.job import Result, WorkerContext
from memgrow.experiments.plan import Job, Ledger, jobs_for
from memgrow.experiments.reply_records import ReplyEvaluation
from memgrow.experiments.run import Record, Run
from memgrow.experiments.store import Store
from memgrow.experiments.workers import Here, Workers
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


class JobQueue:
    """Hands out jobs once what they go on from is there, those with the longest way behind them first."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._waiting = sorted(jobs, key=lambda job: -(job.total + job.behind))
        self._missing = {task.key for job in self._waiting for task in job.tasks}
        self._children = Counter(task.parent for job in self._waiting for task in job.tasks)
        self.reasons: dict[str, str] = {}  # why a stage failed, by its key

    def take(self) -> Job | None:
        """The next job that can be started."""
        for job in self._waiting:
            if not any(task.parent in self._missing for task in job.tasks):
                self._waiting.remove(job)
                return job
        return None

    def settle(self, result: Result) -> list[Result]:
        """What has ended with this result: the job, and if it failed all that waited for it.

        A failed job of several seeds has not ended: its halves are tried, as they may be too many at once.
        """
        job = result.job
        if result.reason is None:
            self._missing -= {task.key for task in job.tasks}
            return [result]
        if len(job.tasks) > 1:
            self._waiting = [*job.halves(), *self._waiting]
            return []
        self.reasons[job.tasks[0].key] = result.reason
        return [result, *self._orphans(result.reason)]

    def unneeded(self, result: Result) -> set[str]:
        """The learners that nobody goes on from any more. One whose child failed is needed to try again."""
        parents = {task.parent for task in result.job.tasks if task.parent and result.reason is None}
        self._children -= Counter(task.parent for task in result.job.tasks if result.reason is None)
        return {parent for parent in parents if parent not in self._children}

    def _orphans(self, reason: str) -> list[Result]:
        """Take out every task whose parent has failed, and the tasks that go on from it, and so on."""
        lost: list[Result] = []
        for job in list(self._waiting):
            orphans = tuple(task for task in job.tasks if task.parent in self.reasons)
            if not orphans:
                continue
            self.reasons |= {task.key: reason for task in orphans}
            others = tuple(task for task in job.tasks if task not in orphans)
            at = self._waiting.index(job)
            self._waiting[at : at + 1] = [replace(job, tasks=others)] if others else []
            lost.append(Result(replace(job, tasks=orphans), reason=reason))
        return [*lost, *self._orphans(reason)] if lost else []


ON_A_GPU = 4  # processes that share one: more wait for each other
LITTLE = 5000  # examples to learn from in all: with less, it takes longer to start processes than to do without


@dataclass(frozen=True)
class Failure:
    """A run that has no record of one of its stages, and why."""

    run: Run
    stage: int  # its number in `run.stages()`
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What came of the runs: a record for each stage of those that succeeded."""

    records: Mapping[Run, tuple[Record, ...]]
    failures: tuple[Failure, ...]


class Grid:
    """Makes runs on one stream and keeps their stages in a store.

    `workers` is how many processes work side by side (1: this one alone; None: as many as suit the device). On a GPU
    up to `stack` seeds are trained together. With `keep_models` the learner of every stage is in the store afterwards.
    `reply_evaluation` is how models that answer with words are tried: a stream of messages and replies needs one.
    """

    def __init__(
        self,
        stream: Stream,
        store: Store,
        *,
        vectors: Path | None = None,
        device: str = "auto",
        workers: int | None = None,
        stack: int = 10,
        progress: Watcher | None = None,
        keep_models: bool = False,
        reply_evaluation: ReplyEvaluation | None = None,
    ) -> None:
        if stack < 1 or (workers is not None and workers < 0):
            raise SettingsError(f"stack must be at least 1 and workers not below 0, not {stack} and {workers}")
        self.stream, self.store, self.vectors = stream, store, vectors
        self.device = find_device(device).type
        self.workers, self.stack = workers, stack if self.device == "cuda" else 1
        self.progress, self.keep_models = progress or Unwatched(), keep_models
        self.reply_evaluation = reply_evaluation
        words = file_fingerprint(vectors) if vectors else ""
        self.ledger = Ledger.of(stream, store, words, reply_evaluation.fingerprints() if reply_evaluation else {})

    def model(self, run: Run) -> Path:
        """Where the learner is at the end of a run, if models are kept."""
        return self.store.model(self.ledger.key(run.stages()[-1]))

    def run(self, runs: Iterable[Run]) -> Outcome:
        """Make what is missing of these runs; one that fails does not end the others."""
        wanted = list(dict.fromkeys(runs))
        for name in dict.fromkeys(name for run in wanted for name in run.learns):
            self.stream[name]  # an unknown domain is refused before anything is done
        jobs = jobs_for(wanted, self.ledger, self.stack, self.keep_models)
        for sentence in self.store.notices:
            self.progress.note(sentence)
        self.store.notices.clear()
        reasons: Mapping[str, str] = {}
        if jobs:
            with self.store.at_work():
                reasons = self._make(jobs)
        if self.keep_models:
            for key in {self.ledger.key(stage) for run in wanted for stage in run.stages()} - set(reasons):
                self.store.keep_model(key)
        return self._outcome(wanted, reasons)

    def found(self, runs: Iterable[Run]) -> Outcome:
        """What there is of these runs already; nothing is made."""
        return self._outcome(list(dict.fromkeys(runs)), {})

    def _make(self, jobs: Sequence[Job]) -> Mapping[str, str]:
        """Do all jobs that can be done; returns the keys of the stages that failed, and why."""
        backlog = JobQueue(jobs)
        self.progress.begin(len(jobs), sum(job.total for job in jobs))
        with self._crew(jobs) as crew:
            while True:
                while crew.free and (job := backlog.take()):
                    crew.start(job)
                results = crew.wait()
                if not results:
                    return backlog.reasons
                for result in results:
                    for ended in backlog.settle(result):
                        self.progress.end(ended)
                    for key in set() if self.keep_models else backlog.unneeded(result):
                        self.store.drop_model(key)

    def _crew(self, jobs: Sequence[Job]) -> Here | Workers:
        bench = WorkerContext(
            self.stream, dict(self.ledger.held_out), self.store, self.vectors, self.device, self.reply_evaluation
        )
        suitable = ON_A_GPU if self.device == "cuda" else _cores()
        if sum(job.total for job in jobs) < LITTLE:
            suitable = 1
        count = min(suitable if self.workers is None else self.workers, len(jobs))
        notes: set[str] = set()

        def tell(job: Job, said: Step | str) -> None:
            if isinstance(said, Step):
                self.progress.step(job, said)
            elif said not in notes:  # every seed and method has the same to say of a domain
                notes.add(said)
                self.progress.note(said)

        return Workers(bench, tell, count) if count > 1 else Here(bench, tell)

    def _outcome(self, runs: Iterable[Run], reasons: Mapping[str, str]) -> Outcome:
        records, failures = {}, []
        for run in runs:
            found = [(stage, self.ledger.record(stage)) for stage in run.stages()]
            complete = [self._as_of(run, record) for _, record in found if record is not None]
            if len(complete) == len(found):
                records[run] = tuple(complete)
                continue
            number, lost = next((n, stage) for n, (stage, record) in enumerate(found) if record is None)
            failures.append(Failure(run, number, reasons.get(self.ledger.key(lost), "it was not made")))
        return Outcome(records, tuple(failures))

    def _as_of(self, run: Run, record: Record) -> Record:
        """A shared record as this run's own: by its method, and on the domains of this stream alone."""
        names = self.stream.names
        return replace(
            record,
            stage=replace(record.stage, method=run.method),
            validation={name: record.validation[name] for name in names},
            test={name: record.test[name] for name in names},
        )


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
