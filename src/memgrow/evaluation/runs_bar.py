"""The progress display of a comparison: one bar for all runs, and a line for each run that has ended."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from memgrow.errors import counted
from memgrow.evaluation.compare import Run, Watcher
from memgrow.evaluation.comparison import RunResult


class RunsBar(Watcher):
    """Shows progress on a console; outside a terminal only the lines of ended runs."""

    def __init__(self, console: Console) -> None:
        self.console, self.ended, self.total = console, 0, 0
        self.shares: dict[Run, float] = {}
        columns = (TextColumn("runs"), BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal, expand=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.bar.disable:
            self.bar.stop()

    def begin(self, runs: int) -> None:
        self.total = runs
        self.task = self.bar.add_task("runs", total=runs)
        if runs and not self.bar.disable:
            self.bar.start()

    def step(self, run: Run, share: float) -> None:
        self.shares[run] = share
        self.bar.update(self.task, completed=self.ended + sum(self.shares.values()))

    def end(self, run: Run, outcome: RunResult | str) -> None:
        self.shares.pop(run, None)
        self.ended += 1
        line = Text.assemble((str(run), "bold"), ": ")
        if isinstance(outcome, str):
            line.append(f"failed: {outcome}", "red")
        else:
            average = 100 * (outcome.matrix.average() or 0.0)
            line.append(f"average {average:.1f}, {counted(round(outcome.seconds), 'second')}")
        if not self.console.is_terminal:
            line.append(f" ({self.ended} of {self.total})", "dim")
        self.console.print(line, highlight=False)
        self.bar.update(self.task, completed=self.ended + sum(self.shares.values()))
