"""The jobs that are still to be done: which can be started, what becomes of those whose parents failed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from memgrow.experiments.attempt import Result
from memgrow.experiments.plan import Job


class Backlog:
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
