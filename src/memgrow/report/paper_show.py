"""A table as it has been made: shown in the terminal, and drawn where it has a curve."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from memgrow.errors import SettingsError
from memgrow.report.paper_curve import draw_scaling, draw_slots
from memgrow.report.paper_tables import paper_tables
from memgrow.report.paper_text import LEGEND
from memgrow.report.theorem_picture import draw_theorem
from memgrow.report.theorem_tables import theorem_tables

SILENCE = 30.0  # seconds between two lines in a log: enough to see that there is life

Figures = Mapping[str, Any]


def show_legend(console: Console) -> None:
    console.print(Text(LEGEND, "dim"))


def show_table(console: Console, figures: Figures, folder: Path) -> None:
    for shown in paper_tables(figures):
        console.print(shown)
    if figures["table"] == "slots":
        _draw(console, draw_slots, figures, folder / "slots.png")
    if scaling := figures.get("studies", {}).get("data"):
        _draw(console, draw_scaling, scaling, folder / "scaling.png")
    _say(console, f"The figures are in {folder / figures['table']}.json.\n")


def show_theorem(console: Console, figures: Figures, folder: Path) -> None:
    for shown in theorem_tables(figures):
        console.print(shown)
    for failure in figures["failures"]:
        console.print(Text(f"failed: {failure}", "red"))
    _draw(console, draw_theorem, figures, folder / "theorem.png")
    _say(console, f"The figures are in {folder / 'theorem.json'}.\n")


class Ticks:
    """A bar for work in equal parts; now and then a line where there is no terminal. Use it in a `with`."""

    def __init__(self, console: Console, parts: int) -> None:
        self.console = console
        self._bars = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=40)),
            BarColumn(bar_width=None),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            expand=True,
        )
        self._task = self._bars.add_task("Theorem 1", total=parts)
        self._spoke = time.monotonic()

    def __enter__(self) -> "Ticks":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def tick(self, what: str) -> None:
        """A part has been done."""
        self._bars.update(self._task, advance=1, description=what)
        if not self.console.is_terminal and time.monotonic() - self._spoke >= SILENCE:
            self._spoke = time.monotonic()
            _say(self.console, f"theorem: {what}")


def _draw(console: Console, draw: Callable[[Figures, Path], None], figures: Figures, path: Path) -> None:
    try:
        draw(figures, path)
    except SettingsError as error:  # a picture is an extra: without it the figures are worth having all the same
        console.print(Text(f"There is no picture: {error}", "dim"))
    else:
        _say(console, f"The picture is {path}.")


def _say(console: Console, sentence: str) -> None:
    console.print(Text(sentence), soft_wrap=True)
