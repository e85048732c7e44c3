"""Progress of long work: a bar on a terminal, now and then a line of a log where there is none."""

import time
from collections.abc import Callable
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from memgrow.errors import counted
from memgrow.report.pace import WORTH_TELLING_S, Pace, duration
from memgrow.report.table import validation_text
from memgrow.training.progress import Step

LOG_EVERY_S = 30.0  # between two lines of a log: enough to see that there is life
NODES = 3  # of a cluster that a bar has room for
NAME_WIDTH = 20  # letters of a domain's name that a bar has room for
TELLING_SHARE = 0.02  # of the work, from which on the time left is worth telling


class ProgressBar:
    """One bar at a time, and above it what is said. Use it in a `with`."""

    def __init__(
        self,
        console: Console,
        *,
        name_width: int | None = None,
        time_left: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console, self.clock = console, clock
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=name_width)),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[state]}", markup=False, table_column=Column(no_wrap=True)),
        ]
        if time_left:
            columns.append(TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)))
        self._bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal, expand=True)
        self._task: TaskID | None = None
        self._spoke = clock()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        if not self._bars.disable:  # else rich, at least up to 14.1, writes an empty line into the log
            self._bars.stop()

    def show(self, name: str, done: float, total: float | None, state: str, log: str = "") -> None:
        """Move the bar on, or begin one; in a log, write the line `log` if there has been none for a while."""
        if not self.console.is_terminal:
            if log and self.clock() - self._spoke >= LOG_EVERY_S:
                self.say(Text(log))
            return
        if self._task is None:
            self._task = self._bars.add_task(name, total=total, state=state)
        self._bars.update(self._task, description=name, completed=done, total=total, state=state)

    def clear(self) -> None:
        """Take the bar away: what it showed has ended."""
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None

    def refresh(self) -> None:
        """Draw the bar as it stands, without waiting for the next tenth of a second."""
        self._bars.refresh()

    def say(self, what: RenderableType) -> None:
        """Print above the bar."""
        self._spoke = self.clock()
        self.console.print(what, highlight=False)

    def note(self, sentence: str) -> None:
        self.say(Text(sentence, "dim"))


class TrainingBar(ProgressBar):
    """Shows one training after another: epoch, loss, accuracy, and the time left.

    Once the first steps have been measured, a line says how long the training takes, and those of the domains to come:
    at most, as training stops when validation no longer rises. The bar's time left is by the same measure.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, name_width=NAME_WIDTH, time_left=False, clock=clock)
        self.replies = False  # whether validation is 1 / perplexity
        self.coming: dict[str, int] = {}  # steps at most of each domain that is yet to be learnt, if known
        self._domain = ""
        self._pace: Pace | None = None
        self._told = False

    def step(self, step: Step) -> None:
        if step.domain != self._domain:
            self.clear()
            self._domain, self._pace, self._told = step.domain, None, False
        done, total = (step.epoch - 1) * step.batches + step.batch, step.epochs * step.batches
        left = ""
        if step.loss is None or step.accuracy is None:
            state = f"texts read {step.batch / max(step.batches, 1):.0%}"
        else:
            state = f"epoch {step.epoch}/{step.epochs} loss {step.loss:.3f} acc {step.accuracy:.1%}"
            left = self._left(step, done, total)
        if step.validation is not None:
            state += f" best {validation_text(step.validation, self.replies)}"
        state = ", ".join(filter(None, (state, left)))
        self.show(step.domain, done, total, state, f"{step.domain}: {state}")

    def _left(self, step: Step, done: int, total: int) -> str:
        """The time left of all epochs, as soon as it is known; what all takes is told at that moment."""
        now = self.clock()
        self._pace = self._pace or Pace(now, done)
        if (each := self._pace.each(now, done)) is None:
            return ""
        if not self._told:
            self._told = True
            if each * (total - done) >= WORTH_TELLING_S:
                self.note(self._announcement(step, each, total))
        return f"{duration(each * (total - done))} left"

    def _announcement(self, step: Step, each: float, total: int) -> str:
        sentence = f"{step.domain}: at most about {duration(each * total)} for {counted(step.epochs, 'epoch')}"
        later = {name: steps for name, steps in self.coming.items() if name != step.domain}
        if later and step.domain in self.coming:
            whole = each * (total + sum(later.values()))
            sentence += f", {duration(whole)} for all {len(later) + 1} domains"
        return sentence


class DownloadBar(ProgressBar):
    """Shows how a corpus is fetched: one thing after another, each with its share."""

    def __init__(self, console: Console, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock=clock)
        self.name, self._doing = name, ""

    def watch(self, doing: str, done: int, total: int | None) -> None:
        if doing != self._doing:
            self.clear()
            self._doing = doing
        share = f"{done / total:.0%}" if total else ""
        self.show(doing, done, total, share, f"{self.name}: {', '.join(filter(None, (doing, share)))}")
