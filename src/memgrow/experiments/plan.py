"""The work still to be done for a set of runs: jobs, which of them wait for others, and the queue that hands them out.

A job makes one stage of runs that differ in their seed alone. It needs the learners of the stage before it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType

from memgrow.data import Stream
from memgrow.data.domain import domain_fingerprint, held_out_fingerprint
from memgrow.experiments.run import Record, Run
from memgrow.experiments.store import Store

OVERHEAD = 200  # examples whose learning takes as long as loading, growing and saving a model, roughly


@dataclass(frozen=True)
class Task:
    """One learner's part of a job."""

    run: Run  # as it stands when this stage has been learnt
    key: str
    parent: str | None  # key of the learner that it goes on from
    record: bool  # whether a record is missing
    keep: bool  # whether somebody needs the learner


@dataclass(frozen=True)
class Job:
    """One stage for all the seeds that ask for it."""

    tasks: tuple[Task, ...]  # their runs differ in seed alone
    work: float  # of one task: examples to be learnt from
    waiting: float = 0.0  # work of the longest chain of jobs that waits for it

    @property
    def run(self) -> Run:
        return self.tasks[0].run

    @property
    def total(self) -> float:
        return self.work * len(self.tasks)

    def halves(self) -> "tuple[Job, Job]":
        middle = len(self.tasks) // 2
        return replace(self, tasks=self.tasks[:middle]), replace(self, tasks=self.tasks[middle:])


@dataclass(frozen=True)
class Result:
    """The result of a job."""

    job: Job
    records: tuple[Record, ...] = ()
    reason: str | None = None  # why it failed
    where: str = ""  # the node of a cluster that did it


@dataclass(frozen=True)
class Ledger:
    """A ledger of what is known of the data and of finished stages."""

    stream: Stream
    store: Store
    data: Mapping[str, str]  # fingerprints by domain
    held_out: Mapping[str, str]  # fingerprints of what models are evaluated on, and how
    only_learnt: bool = False  # a model is evaluated on the domains that it has learnt, not on all of the stream
    _found: dict[str, Record] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        stream: Stream,
        store: Store,
        vectors: str = "",
        evaluation: Mapping[str, str] = MappingProxyType({}),
        only_learnt: bool = False,
    ) -> "Ledger":
        """`vectors` and `evaluation` are fingerprints of the word vectors and of how replies are evaluated."""
        beside = f"{labels_of(stream)} {vectors}"
        data = {domain.name: domain_fingerprint(domain, beside) for domain in stream}
        held_out = {domain.name: held_out_fingerprint(domain) for domain in stream}
        return cls(stream, store, data, {**held_out, **evaluation}, only_learnt)

    def key(self, run: Run) -> str:
        return run.key(self.data)

    def record(self, run: Run) -> Record | None:
        """The record of a stage, if there is one that can serve."""
        key = self.key(run)
        if key not in self._found:
            record = self.store.get(key)
            tried = {name: self.held_out[name] for name in run.learns} if self.only_learnt else self.held_out
            if record is None or not record.stands_for(run, tried):
                return None
            self._found[key] = record
        return self._found[key]


def labels_of(stream: Stream) -> tuple[str, ...]:
    """All labels, by which, among other things, its data is known."""
    return tuple(sorted({label for domain in stream for label in domain.labels}))


def work_of(run: Run, stream: Stream) -> float:
    """About how many examples a stage learns from, more where it has more epochs than others of the run."""
    if run.takes_notes():
        return float(run.options.fisher_examples)
    names = run.learns if (first := run.parent() is None) else run.learns[-1:]
    examples, training = sum(len(stream[name].train) for name in names), run.training
    epochs = training.epochs_for(ceil(examples / training.batch), first)
    return float(OVERHEAD + examples * epochs / training.most_epochs)


def jobs_for(runs: Iterable[Run], ledger: Ledger, stack: int, keep_models: bool = False) -> list[Job]:
    """The jobs that are to be done, each after those it waits for; at most `stack` seeds to a job."""
    wanted: dict[Run, bool] = {}  # stages to be made, and whether their learners are needed

    def want(run: Run, learner: bool) -> None:
        """Visit a stage's ancestors before it, so that the order of `wanted` is one to work in."""
        lacks = ledger.record(run) is None and not run.takes_notes()
        if run in wanted:
            wanted[run] |= learner
        elif lacks or (learner and not ledger.store.has_model(ledger.key(run))):
            if (parent := run.parent()) is not None:
                want(parent, True)
            wanted[run] = learner

    for stage in dict.fromkeys(stage for run in runs for stage in run.stages()):
        want(stage, keep_models)

    waiting: dict[Run, float] = defaultdict(float)
    for run in reversed(wanted):
        if (parent := run.parent()) is not None:
            waiting[parent] = max(waiting[parent], waiting[run] + work_of(run, ledger.stream))

    alike: dict[Run, list[Run]] = defaultdict(list)
    for run in wanted:
        alike[replace(run, seed=0)].append(run)
    return [
        Job(
            tuple(_task(run, wanted[run], ledger) for run in group), work_of(group[0], ledger.stream), waiting[group[0]]
        )
        for seeds in alike.values()
        for group in _chunks(sorted(seeds, key=lambda run: run.seed), stack)
    ]


def _task(run: Run, keep: bool, ledger: Ledger) -> Task:
    parent = run.parent()
    record = ledger.record(run) is None and not run.takes_notes()
    return Task(run, ledger.key(run), ledger.key(parent) if parent else None, record, keep)


def _chunks(runs: Sequence[Run], size: int) -> list[Sequence[Run]]:
    return [runs[start : start + size] for start in range(0, len(runs), size)]


class JobQueue:
    """Hands out jobs once the learners that they go on from are there, those with the longest chain of work first.

    With `by_seed` those of the first seeds go before all others, so that some seeds are whole if there is no time left.
    """

    def __init__(self, jobs: Iterable[Job], by_seed: bool = False) -> None:
        self._waiting = sorted(jobs, key=lambda job: (job.run.seed if by_seed else 0, -(job.total + job.waiting)))
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

    def finish(self, result: Result) -> list[Result]:
        """Everything that has ended with this result: the job and, if it failed, all that waited for it.

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
        if result.reason is not None:
            return set()
        parents = [task.parent for task in result.job.tasks]
        self._children -= Counter(parents)
        return {parent for parent in parents if parent and parent not in self._children}

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
