"""Progress of work in equal parts: a bar in a terminal, now and then a line where there is none."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from memgrow.report.bar import SILENCE

NAME = 40  # letters of a part's name that the bar has room for


class Ticks:
    """Moves on with each `tick`. Use it in a `with`."""

    def __init__(self, console: Console, name: str, parts: int) -> None:
        self.console, self.name, self.parts = console, name, parts
        self._bars = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=NAME)),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            expand=True,
        )
        self._task = self._bars.add_task(name, total=parts)
        self._done, self._spoke = 0, time.monotonic()

    def __enter__(self) -> "Ticks":
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bars.stop()

    def tick(self, what: str) -> None:
        """A part has been done."""
        self._done += 1
        self._bars.update(self._task, advance=1, description=what)
        if not self.console.is_terminal and time.monotonic() - self._spoke >= SILENCE:
            self._spoke = time.monotonic()
            self.console.print(f"{self.name}: {self._done} of {self.parts} parts done ({what})")
