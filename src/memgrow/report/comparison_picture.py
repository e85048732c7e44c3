"""Methods side by side as a picture: every seed a dot, what is good to the right and to the left."""

from pathlib import Path
from typing import TYPE_CHECKING

from memgrow.errors import SettingsError
from memgrow.experiments.comparison import BASELINE, RETRAINING, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEAD, LINE, DPI = 9.0, 1.6, 0.42, 130  # inches of the picture, around its lines, of a line; dots in an inch
COLOUR, REFERENCE = "#2a6f97", {BASELINE: "#8a8a8a", RETRAINING: "#c1666b"}


def draw_comparison(comparison: Comparison, path: str | Path, title: str) -> None:
    """Write a PNG (or what else the name's ending says)."""
    try:
        # A figure by itself, without pyplot: a caller's backend and open figures are left alone.
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError("pictures need matplotlib: install it with `pip install 'memgrow[plots]'`") from error
    methods = comparison.order
    figure = Figure(figsize=(WIDTH, HEAD + LINE * len(methods)), layout="constrained")
    panels = {
        "average": f"{comparison.kind.average}\n(right is better)",
        "forgetting": "forgetting, points\n(left is better)",
    }
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, (figure_of, label) in zip(axes, panels.items(), strict=True):
        _draw(axis, comparison, figure_of)
        axis.set_xlabel(label)
    axes[0].set_yticks(range(len(methods)), methods)
    axes[0].set_ylim(len(methods) - 0.5, -0.5)
    figure.suptitle(title, parse_math=False)
    figure.savefig(path, dpi=DPI)


def _draw(axis: "Axes", comparison: Comparison, figure: str) -> None:
    for line, method in enumerate(comparison.order):
        value, colour = comparison.summary[method][figure], REFERENCE.get(method, COLOUR)
        if value["mean"] is None:
            continue
        seeds = [100 * one for one in value["seeds"].values()]
        axis.plot(seeds, [line] * len(seeds), "o", color=colour, alpha=0.35, markersize=5)
        axis.plot(100 * value["mean"], line, "|", color=colour, markersize=16, markeredgewidth=3)
        if method in REFERENCE:
            axis.axvline(100 * value["mean"], color=colour, linewidth=0.8, linestyle=":")
    axis.grid(axis="x", alpha=0.25)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(left=False)
