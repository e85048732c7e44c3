"""Jobs done on the nodes of a cluster, of which none need share a file system with this machine.

A job goes to a node together with the learners that it goes on from, and comes back with all that it made. This process
alone writes to the store. So a node that is lost takes with it the jobs that it was doing and no more, and one that is
thought to be lost, but goes on, can do no harm.
"""

import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from memgrow.errors import SettingsError
from memgrow.experiments.executor import ON_A_GPU, REPORT_EVERY_S, Report, Reporter, Started
from memgrow.experiments.job import WorkerContext, reason_of, run_job
from memgrow.experiments.plan import Job, Result
from memgrow.experiments.store import Store
from memgrow.progress import Step
from memgrow.version import __version__

POLL_S = 0.5  # between two looks at what the jobs say
NEEDS: dict[str, dict[str, float]] = {"cpu": {"CPU": 1}, "cuda": {"CPU": 1, "GPU": 1 / ON_A_GPU}}  # of a job, by device
Models = Mapping[str, Mapping[str, bytes]]
"""Learners by their keys: the files of each by name."""
Tell = Callable[[str, Step | None], None]
"""Takes the node that does a job and how far it is; None as it begins."""


@dataclass(frozen=True)
class Packages:
    """The versions by which a node must agree with this machine, as the same seed gives other figures with others."""

    memgrow: str = __version__
    torch: str = torch.__version__.partition("+")[0]  # a build for a GPU and one without go together

    def __str__(self) -> str:
        return f"memgrow {self.memgrow} and torch {self.torch}"


@dataclass(frozen=True)
class Finished:
    """All that comes back from a node."""

    result: Result
    models: Models
    notes: tuple[str, ...]


class LostError(Exception):
    """A job that a cluster could not do, for the reason that it gives."""


class Cluster(Protocol):
    """Starts jobs on nodes, and tries those of a lost node again on another."""

    def capacity(self, needs: Mapping[str, float]) -> int:
        """The number of jobs with such needs that the nodes have room for at once."""

    def share(self, context: WorkerContext) -> Any:
        """Put what all jobs need where every node can get it; the result stands for it in `start`."""

    def start(self, shared: Any, number: int, job: Job, parents: Models, needs: Mapping[str, float]) -> Hashable:
        """Begin a job; what is returned stands for it. What it says carries the number."""

    def wait(self, under_way: Sequence[Any], seconds: float) -> Sequence[Any]:
        """Those that have ended, after this time at the latest."""

    def fetch(self, ended: Any) -> Finished:
        """What a job has made; LostError if the cluster has given it up."""

    def said(self) -> list[tuple[int, str, Step | None]]:
        """What jobs have told since the last call: the number of each, its node, and how far it is."""

    def stop(self, under_way: Sequence[Any]) -> None:
        """Give up these jobs."""


class ClusterExecutor:
    """Submits jobs to a cluster, no more than it has room for, so that the queue decides which go first."""

    def __init__(self, cluster: Cluster, context: WorkerContext, report: Report, workers: int | None = None) -> None:
        self.cluster, self.store, self.report, self.workers = cluster, context.store, report, workers
        self._needs = NEEDS[context.device]
        self._shared = cluster.share(_for_nodes(context))
        self._under_way: dict[Any, int] = {}
        self._jobs: list[Job] = []
        self._begun: dict[int, str] = {}  # the node of each job
        self._refused: list[Result] = []  # what could not even be sent

    def __enter__(self) -> "ClusterExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        if self._under_way:
            self.cluster.stop(list(self._under_way))

    @property
    def free(self) -> bool:
        room = max(1, self.cluster.capacity(self._needs))
        return len(self._under_way) < (room if self.workers is None else min(room, self.workers))

    def submit(self, job: Job) -> None:
        try:
            parents = {task.parent: self.store.model_files(task.parent) for task in job.tasks if task.parent}
        except OSError as error:
            self._refused.append(Result(job, reason=reason_of(error)))
            return
        number = len(self._jobs)
        self._jobs.append(job)
        self._under_way[self.cluster.start(self._shared, number, job, parents, self._needs)] = number

    def results(self) -> list[Result]:
        refused, self._refused = self._refused, []
        while self._under_way and not refused:
            ended = self.cluster.wait(list(self._under_way), POLL_S)
            self._pass_on()
            if ended:
                return [self._received(one) for one in ended]
        return refused

    def _received(self, ended: Any) -> Result:
        """Keep what a job has made, the learners first: a record says that its stage is finished."""
        number = self._under_way.pop(ended)
        job, where = self._jobs[number], self._begun.get(number, "")
        try:
            finished = self.cluster.fetch(ended)
        except LostError as error:
            return Result(job, reason=str(error), where=where)
        for note in finished.notes:
            self.report(job, note)
        result = replace(finished.result, job=job)
        try:
            for key, files in finished.models.items():
                self.store.put_model(key, files)
            for record in result.records:
                self.store.put(record)
        except OSError as error:
            return Result(job, reason=reason_of(error), where=result.where)
        return result if result.reason is None else replace(result, reason=f"{result.reason} (on {result.where})")

    def _pass_on(self) -> None:
        for number, where, step in self.cluster.said():
            job = self._jobs[number]
            if number not in self._under_way.values():
                continue
            if step is not None:
                self.report(job, step)
            elif self._begun.get(number) != where:
                if number in self._begun:
                    self.report(job, f"a job was lost with its node {self._begun[number]}, and begins again on {where}")
                self._begun[number] = where
                self.report(job, Started(where))


def do_job(context: WorkerContext, job: Job, parents: Models, where: str, tell: Tell, asked: Packages) -> Finished:
    """What a node does: a job in a folder of its own, which holds the learners that it goes on from."""
    here, notes = Packages(), list[str]()
    if here != asked:
        reason = f"it has {here}, and the others have {asked}: install the same on every node"
        return Finished(Result(job, reason=reason, where=where), {}, ())
    tell(where, None)

    def say(said: Step | str) -> None:
        if isinstance(said, str):
            notes.append(said)
        else:
            tell(where, said)

    with tempfile.TemporaryDirectory(prefix="memgrow-") as folder:
        store = Store(Path(folder))
        try:
            for key, files in parents.items():
                store.put_model(key, files)
            result = run_job(job, replace(context, store=store), Reporter(say, REPORT_EVERY_S))
            kept = [task.key for task in job.tasks if task.keep] if result.reason is None else []
            models = {key: store.model_files(key) for key in kept}
        except OSError as error:
            return Finished(Result(job, reason=reason_of(error), where=where), {}, tuple(notes))
    return Finished(replace(result, where=where), models, tuple(notes))


def _for_nodes(context: WorkerContext) -> WorkerContext:
    """The same with names of files that hold from any folder: these files have to be on every node."""
    evaluation = context.reply_evaluation
    if evaluation is not None and evaluation.vectors is not None:
        evaluation = replace(evaluation, vectors=evaluation.vectors.absolute())
    vectors = context.vectors.absolute() if context.vectors is not None else None
    return replace(context, vectors=vectors, reply_evaluation=evaluation)


def device_of(asked: str, capacity: Callable[[Mapping[str, float]], int]) -> str:
    """The device that jobs of a cluster run on: a GPU if any of its nodes has one, and nobody has asked otherwise."""
    if asked not in ("auto", *NEEDS):
        raise SettingsError(f"there is no device {asked!r}; there are auto, cpu and cuda")
    has_gpu = capacity(NEEDS["cuda"]) > 0
    if asked == "cuda" and not has_gpu:
        raise SettingsError("no node of the Ray cluster has a GPU: use the device cpu or auto")
    return "cuda" if has_gpu and asked != "cpu" else "cpu"
