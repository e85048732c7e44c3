"""A grid of runs: each stage is made once, by several processes where that pays, and never again once finished."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from memgrow.data import Stream
from memgrow.data.domain import file_fingerprint
from memgrow.errors import SettingsError
from memgrow.experiments.executor import Backend, Executor, Report, Said, Started
from memgrow.experiments.job import WorkerContext
from memgrow.experiments.plan import Job, JobQueue, Ledger, Result, jobs_for
from memgrow.experiments.reply_records import ReplyEvaluation
from memgrow.experiments.run import Record, Run
from memgrow.experiments.store import Store
from memgrow.experiments.workers import ThisMachine
from memgrow.progress import Step


class Watcher(Protocol):
    """Anything that can show how far a grid is: a bar, a log, a page."""

    def begin(self, jobs: int, work: float) -> None:
        """Called once, with the number of jobs and the examples that they learn from in all."""

    def start(self, job: Job, where: str) -> None:
        """Called when a job begins on a node of a cluster."""

    def step(self, job: Job, step: Step) -> None:
        """Called as the training of a job goes on."""

    def end(self, result: Result) -> None:
        """Called when a job has ended, well or not."""

    def note(self, sentence: str) -> None:
        """Called with what a user should know."""


class NoWatcher:
    """Shows nothing."""

    def begin(self, jobs: int, work: float) -> None:
        return

    def start(self, job: Job, where: str) -> None:
        return

    def step(self, job: Job, step: Step) -> None:
        return

    def end(self, result: Result) -> None:
        return

    def note(self, sentence: str) -> None:
        return


@dataclass(frozen=True)
class Failure:
    """A run that has no record of one of its stages, and why."""

    run: Run
    stage: int  # its number in `run.stages()`
    reason: str


@dataclass(frozen=True)
class Outcome:
    """The result of the runs: a record for each stage of those that succeeded."""

    records: Mapping[Run, tuple[Record, ...]]
    failures: tuple[Failure, ...]


class Grid:
    """Makes runs on one stream and keeps their stages in a store.

    `backend` is where the runs are made: on this machine, unless another is given. `workers` is how many jobs are done
    side by side (1, on this machine: in this process; None: as many as suit the device). On a GPU
    up to `stack` seeds are trained together. With `keep_models` the learner of every stage is in the store afterwards.
    `reply_evaluation` is how models that answer with words are evaluated: a stream of replies needs one.
    With `only_learnt` a model is evaluated on the domains that it has learnt alone, and at the end of the stream, if it
    has slots, without these too. Without `stack_single` a seed by itself is learnt as `Learner.adapt` learns it, to the
    bit; the recorded studies were made with it. After `until`, a time of `time.monotonic`, no job is started; finished
    ones are kept.
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
        only_learnt: bool = False,
        stack_single: bool = True,
        until: float | None = None,
        backend: Backend | None = None,
    ) -> None:
        if stack < 1 or (workers is not None and workers < 0):
            raise SettingsError(f"stack must be at least 1 and workers not below 0, not {stack} and {workers}")
        self.stream, self.store, self.vectors = stream, store, vectors
        self.backend = backend or ThisMachine()
        self.device = self.backend.device(device)
        self.workers, self.stack = workers, stack if self.device == "cuda" else 1
        self.progress, self.keep_models = progress or NoWatcher(), keep_models
        self.reply_evaluation, self.stack_single, self.until = reply_evaluation, stack_single, until
        words = file_fingerprint(vectors) if vectors else ""
        evaluation = reply_evaluation.fingerprints() if reply_evaluation else {}
        self.ledger = Ledger.of(stream, store, words, evaluation, only_learnt)

    def model(self, run: Run) -> Path:
        """The folder of the learner at the end of a run, if models are kept."""
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
        """The results of these runs that are there already; nothing is made."""
        return self._outcome(list(dict.fromkeys(runs)), {})

    def _make(self, jobs: Sequence[Job]) -> Mapping[str, str]:
        """Do all jobs that can be done; returns the keys of the stages that failed, and why."""
        queue = JobQueue(jobs, by_seed=self.until is not None)
        work = sum(job.total for job in jobs)
        self.progress.begin(len(jobs), work)
        with self.executor(self._reporter(), len(jobs), work) as executor:
            while True:
                while executor.free and not self._is_late() and (job := queue.take()):
                    executor.submit(job)
                results = executor.results()
                if not results:
                    return queue.reasons
                for result in results:
                    for ended in queue.finish(result):
                        self.progress.end(ended)
                    for key in set() if self.keep_models else queue.unneeded(result):
                        self.store.drop_model(key)

    def _is_late(self) -> bool:
        return self.until is not None and time.monotonic() > self.until

    def executor(self, report: Report, jobs: int, work: float) -> Executor:
        """What does jobs on this stream: about that many, which learn from that many examples in all."""
        context = WorkerContext(
            self.stream,
            dict(self.ledger.held_out),
            self.store,
            self.vectors,
            self.device,
            self.reply_evaluation,
            self.ledger.only_learnt,
            self.stack_single,
        )
        return self.backend.executor(context, report, jobs, work, self.workers)

    def _reporter(self) -> Report:
        """Passes what jobs say on to the watcher."""
        notes: set[str] = set()

        def report(job: Job, said: Said) -> None:
            if isinstance(said, Step):
                self.progress.step(job, said)
            elif isinstance(said, Started):
                self.progress.start(job, said.where)
            elif said not in notes:  # every seed and method has the same to say of a domain
                notes.add(said)
                self.progress.note(said)

        return report

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
        names = [name for name in self.stream.names if name in record.test]
        return replace(
            record,
            stage=replace(record.stage, method=run.method),
            validation={name: record.validation[name] for name in names},
            test={name: record.test[name] for name in names},
        )
