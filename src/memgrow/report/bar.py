"""Progress in the terminal: a bar with loss, accuracy and time left; now and then a line where there is no terminal."""

import time
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from memgrow.progress import Step

SILENCE = 30.0  # seconds between two lines in a log: enough to see that there is life
NAME = 20  # letters of a domain's name that the bar has room for


class Bar:
    """Shows one training after another. Use it in a `with`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bars = RichProgress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=NAME)),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[state]}", markup=False, table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            expand=True,
        )
        self._task: TaskID | None = None
        self._domain = ""
        self._spoke = time.monotonic()

    def __enter__(self) -> "Bar":
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.done()
        self._bars.stop()

    def step(self, step: Step) -> None:
        state = f"epoch {step.epoch}/{step.epochs} loss {step.loss:.3f} acc {step.accuracy:.1%}"
        if step.validation is not None:
            state += f" best {step.validation:.1%}"
        if not self.console.is_terminal:
            self._log(f"{step.domain}: {state}")
            return
        if self._task is None or step.domain != self._domain:
            self.done()
            self._domain = step.domain
            self._task = self._bars.add_task(step.domain, state="")
        # The time left is that of all epochs: training may stop earlier, when validation no longer rises.
        self._bars.update(
            self._task,
            total=step.epochs * step.batches,
            completed=(step.epoch - 1) * step.batches + step.batch,
            state=state,
        )

    def note(self, sentence: str) -> None:
        self.say(Text(sentence, "dim"))

    def say(self, what: RenderableType) -> None:
        """Print above the bar."""
        self._spoke = time.monotonic()
        self.console.print(what, highlight=False)

    def done(self) -> None:
        """The training under way has ended: take its bar away."""
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None

    def _log(self, line: str) -> None:
        if time.monotonic() - self._spoke >= SILENCE:
            self.say(Text(line))
