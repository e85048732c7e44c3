"""The curves of the paper's tables: slots, and the amount of data."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memgrow.errors import SettingsError
from research.common.plots import DPI, new_figure
from research.paper.figures import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = (4.6, 3.6)
OURS, PAPER = "#1f4e79", "#b0642a"


def draw_slots(figures: Json, path: Path) -> None:
    """Draw validation accuracy on S and on T against the slots of each domain: ours with its spread, and the paper's.

    Refused while a number of slots has no runs: a curve with holes would be taken for a whole one.
    """
    (sheet,) = figures["sheets"]
    if missing := [line["name"] for line in sheet["rows"] if line["cells"]["average"]["mean"] is None]:
        raise SettingsError(f"there are no runs with {', '.join(missing)} slots: make them first")
    columns = [column for column in sheet["columns"] if column != "average"]
    figure = new_figure(PANEL[0] * len(columns), PANEL[1])
    axes = figure.subplots(1, len(columns), squeeze=False)[0]
    for axis, column in zip(axes, columns, strict=True):
        cells = [(line["value"], line["cells"][column]) for line in sheet["rows"]]
        _draw_curve(axis, cells, color=OURS, label="ours")
        paper = [(value, cell["paper"]) for value, cell in cells if "paper" in cell]
        axis.plot([value for value, _ in paper], [printed for _, printed in paper], "s--", color=PAPER, label="paper")
        axis.grid(alpha=0.3)
        axis.set_xlabel("slots of each domain")
        axis.set_ylabel(f"validation accuracy on {column}, %")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=DPI)


def draw_scaling(study: Json, path: Path) -> None:
    """Draw the average over all domains against the amount of data, method by method."""
    figure = new_figure(*PANEL)
    axis = figure.subplots()
    labels = [sheet["title"] for sheet in study["sheets"]]
    for method in study["methods"]:
        rows = [line for sheet in study["sheets"] for line in sheet["rows"] if line["name"] == method]
        _draw_curve(axis, list(enumerate(line["cells"]["average"] for line in rows)), label=method)
    axis.set_xticks(range(len(labels)), labels, rotation=15)
    axis.set_xlabel(study["about"])
    axis.set_ylabel("average test accuracy at the end, %")
    axis.legend(frameon=False)
    figure.savefig(path, dpi=DPI)


def _draw_curve(axis: "Axes", cells: Sequence[tuple[float, Json]], **style: Any) -> None:
    known = [(place, cell["mean"], cell["spread"] or 0.0) for place, cell in cells if cell["mean"] is not None]
    places, means, spreads = zip(*known, strict=True) if known else ((), (), ())
    axis.errorbar(places, means, yerr=spreads, marker="o", capsize=3, **style)
