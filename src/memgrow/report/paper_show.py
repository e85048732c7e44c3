"""A table as it has been made: shown in the terminal, and drawn where it has a curve."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.text import Text

from memgrow.errors import SettingsError
from memgrow.report.paper_tables import paper_tables
from memgrow.report.paper_text import LEGEND
from memgrow.report.plots import draw_scaling, draw_slots
from memgrow.report.theorem import theorem_tables
from memgrow.report.theorem_plot import draw_theorem
from memgrow.storage import atomic_open

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
        console.print(Text(f"missing: {failure}", "red"))
    _draw(console, draw_theorem, figures, folder / "theorem.png")
    _say(console, f"The figures are in {folder / 'theorem.json'}.\n")


def _draw(console: Console, draw: Callable[[Figures, BinaryIO], None], figures: Figures, path: Path) -> None:
    try:
        with atomic_open(path) as file:
            draw(figures, file)
    except SettingsError as error:  # a picture is an extra: without it the figures are worth having all the same
        console.print(Text(f"There is no picture: {error}", "dim"))
    else:
        _say(console, f"The picture is {path}.")


def _say(console: Console, sentence: str) -> None:
    console.print(Text(sentence), soft_wrap=True)
