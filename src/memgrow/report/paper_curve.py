"""Curves of the paper's tables: accuracy against slots, beside the paper's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memgrow.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT, DPI = 4.6, 3.6, 130  # inches of one panel, dots in an inch
OURS, PAPER = "#1f4e79", "#b0642a"

Figures = Mapping[str, Any]


def draw_slots(figures: Figures, path: str | Path) -> None:
    """Validation accuracy on S and on T against the slots of each domain: ours with its spread, and the paper's.

    Refused while a number of slots has no runs: a curve with holes would be taken for a whole one.
    """
    (sheet,) = figures["sheets"]
    if missing := [row["name"] for row in sheet["rows"] if row["cells"]["average"]["mean"] is None]:
        raise SettingsError(f"there are no runs with {', '.join(missing)} slots: make them first")
    panels = [column for column in sheet["columns"] if column != "average"]
    with_panels = _panels(len(panels))
    for axis, column in zip(with_panels.axes, panels, strict=True):
        _draw(axis, sheet, column)
        axis.set_xlabel("slots of each domain")
        axis.set_ylabel(f"validation accuracy on {column}, %")
    with_panels.axes[0].legend(frameon=False)
    with_panels.savefig(path, dpi=DPI)


def draw_scaling(study: Figures, path: str | Path) -> None:
    """The average over all domains against the amount of data, method by method."""
    figure = _panels(1)
    (axis,) = figure.axes
    labels = [sheet["title"] for sheet in study["sheets"]]
    for method in study["methods"]:
        cells = [row["cells"]["average"] for sheet in study["sheets"] for row in sheet["rows"] if row["name"] == method]
        known = [(number, cell) for number, cell in enumerate(cells) if cell["mean"] is not None]
        axis.errorbar(
            [number for number, _ in known],
            [cell["mean"] for _, cell in known],
            yerr=[cell["spread"] or 0.0 for _, cell in known],
            marker="o",
            capsize=3,
            label=method,
        )
    axis.set_xticks(range(len(labels)), labels, rotation=15)
    axis.set_xlabel(study["about"])
    axis.set_ylabel("average test accuracy at the end, %")
    axis.legend(frameon=False)
    figure.savefig(path, dpi=DPI)


def _draw(axis: "Axes", sheet: Figures, column: str) -> None:
    rows = [(row["value"], row["cells"][column]) for row in sheet["rows"]]
    ours = [(value, cell) for value, cell in rows if cell["mean"] is not None]
    paper = [(value, cell["paper"]) for value, cell in rows if "paper" in cell]
    axis.errorbar(
        [value for value, _ in ours],
        [cell["mean"] for _, cell in ours],
        yerr=[cell["spread"] or 0.0 for _, cell in ours],
        color=OURS,
        marker="o",
        capsize=3,
        label="ours",
    )
    axis.plot([value for value, _ in paper], [figure for _, figure in paper], "s--", color=PAPER, label="paper")
    axis.grid(alpha=0.3)


def _panels(count: int) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError("pictures need matplotlib: install it with `pip install 'memgrow[plots]'`") from error
    figure = Figure(figsize=(WIDTH * count, HEIGHT), layout="constrained")
    figure.subplots(1, count, squeeze=False)
    return figure
