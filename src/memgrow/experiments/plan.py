"""What there is to do before all runs have their records: jobs, each with what it goes on from."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    behind: float = 0.0  # work of the longest chain that waits for it

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
class Ledger:
    """What is known of the data and of finished stages."""

    stream: Stream
    store: Store
    data: Mapping[str, str]  # fingerprints by domain
    held_out: Mapping[str, str]  # fingerprints of what models are tried on, and how
    _found: dict[str, Record] = field(default_factory=dict)

    @classmethod
    def of(
        cls, stream: Stream, store: Store, vectors: str, trial: Mapping[str, str] = MappingProxyType({})
    ) -> "Ledger":
        beside = f"{labels_of(stream)} {vectors}"
        data = {domain.name: domain_fingerprint(domain, beside) for domain in stream}
        held_out = {domain.name: held_out_fingerprint(domain) for domain in stream}
        return cls(stream, store, data, {**held_out, **trial})

    def key(self, run: Run) -> str:
        return run.key(self.data)

    def record(self, run: Run) -> Record | None:
        """The record of a stage, if there is one that can serve."""
        key = self.key(run)
        if key not in self._found:
            record = self.store.get(key)
            if record is None or not record.stands_for(run, self.held_out):
                return None
            self._found[key] = record
        return self._found[key]


def labels_of(stream: Stream) -> tuple[str, ...]:
    """All labels: a stream may well begin with a domain that has fewer."""
    return tuple(sorted({label for domain in stream for label in domain.labels}))


def work_of(run: Run, stream: Stream) -> float:
    """How many examples a stage learns from, about."""
    if run.takes_notes():
        return float(run.options.fisher_examples)
    names = run.learns if run.parent() is None else run.learns[-1:]
    return float(OVERHEAD + sum(len(stream[name].train) for name in names))


def jobs_for(runs: Iterable[Run], ledger: Ledger, stack: int, keep_models: bool = False) -> list[Job]:
    """The jobs that are to be done, each behind those it waits for; at most `stack` seeds to a job."""
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

    behind: dict[Run, float] = defaultdict(float)
    for run in reversed(wanted):
        if (parent := run.parent()) is not None:
            behind[parent] = max(behind[parent], behind[run] + work_of(run, ledger.stream))

    alike: dict[Run, list[Run]] = defaultdict(list)
    for run in wanted:
        alike[replace(run, seed=0)].append(run)
    return [
        Job(tuple(_task(run, wanted[run], ledger) for run in group), work_of(group[0], ledger.stream), behind[group[0]])
        for seeds in alike.values()
        for group in _chunks(sorted(seeds, key=lambda run: run.seed), stack)
    ]


def _task(run: Run, keep: bool, ledger: Ledger) -> Task:
    parent = run.parent()
    record = ledger.record(run) is None and not run.takes_notes()
    return Task(run, ledger.key(run), ledger.key(parent) if parent else None, record, keep)


def _chunks(runs: Sequence[Run], size: int) -> list[Sequence[Run]]:
    return [runs[start : start + size] for start in range(0, len(runs), size)]
