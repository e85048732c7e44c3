"""Progress of many runs: a line for each job that has ended, and on a terminal a bar with the time left."""

import time
from collections.abc import Sequence
from math import inf
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from memgrow.experiments.plan import Job, Result
from memgrow.methods import find_method
from memgrow.progress import Step
from memgrow.report.table import percent, perplexity_text

MINUTE, HOUR = 60, 3600
SURE = 0.02  # share of the work behind which the time left is worth telling


class GridBar:
    """Shows how far a grid is. Use it in a `with`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bars = RichProgress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            expand=True,
        )
        self._task: TaskID | None = None
        self._started = time.monotonic()
        self._jobs = self._ended = 0
        self._work = self._done = 0.0
        self._running: dict[Job, float] = {}  # the share of each that is done

    def __enter__(self) -> "GridBar":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, jobs: int, work: float) -> None:
        self._started = time.monotonic()
        self._jobs, self._ended, self._work, self._done, self._running = jobs, 0, work, 0.0, {}
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task("", total=work, left="")
        self._show()

    def step(self, job: Job, step: Step) -> None:
        self._running[job] = ((step.epoch - 1) + step.batch / max(step.batches, 1)) / step.epochs
        self._show()

    def end(self, result: Result) -> None:
        self._running.pop(result.job, None)
        self._done += result.job.total
        self._ended += 1
        line = job_line(result)
        if not self.console.is_terminal and result.reason is None:
            behind = ", ".join(part for part in (f"{self._ended} of {self._jobs}", self._left()) if part)
            line.append(f" ({behind})", "dim")
        self.console.print(line, highlight=False)
        self._show()

    def note(self, sentence: str) -> None:
        self.console.print(Text(sentence, "dim"), highlight=False)

    def _show(self) -> None:
        if self._task is not None:
            at = f"stage {min(self._ended + 1, self._jobs)} of {self._jobs}"
            self._bars.update(self._task, completed=self._so_far(), description=at, left=self._left())

    def _so_far(self) -> float:
        return self._done + sum(job.total * share for job, share in self._running.items())

    def _left(self) -> str:
        share = self._so_far() / self._work if self._work else 1.0
        if not SURE <= share < 1:
            return ""
        return f"{duration((time.monotonic() - self._started) * (1 - share) / share)} left"


def job_line(result: Result) -> Text:
    """What a job was, and how it went."""
    run, seeds = result.job.run, [task.run.seed for task in result.job.tasks]
    method = find_method(run.method)
    what = run.learns[-1] if len(run.learns) == 1 else f"{run.learns[-1]} by {method.name}"
    if method.together:
        what = f"all by {method.name}"
    elif run.takes_notes():
        what = f"notes on {run.learns[0]} for {method.name}"
    line = Text.assemble((what, "bold"), f", {_listed(seeds)}")
    if result.reason is not None:
        return line.append(f": failed: {result.reason}", "red")
    stages = [record.stage for record in result.records]
    if stages:
        mean, seconds = fmean(stage.validation for stage in stages), max(stage.seconds for stage in stages)
        spoken = any(record.replies for record in result.records)  # where validation is 1 / perplexity
        shown = f"perplexity {perplexity_text(1 / mean if mean else inf)}" if spoken else f"{percent(mean)}%"
        line.append(f": validation {shown}, {duration(seconds)}")
    return line


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h"


def _listed(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    whole = list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"seeds {seeds[0]} to {seeds[-1]}" if whole else f"seeds {', '.join(map(str, seeds))}"
