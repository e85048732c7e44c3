"""Theorem 1 in numbers as a picture."""

import math
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, BinaryIO

from research.common.plots import DPI, new_figure
from research.theorem.report import TheoremReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDE, HEIGHT = 5.2, 4.6  # inches of a field
UNITS, SLOTS, QUIET = "#c4561b", "#1f6f8b", "#7fb3c4"
LINES = ("#1f6f8b", "#3f9e6e", "#8a6fb0", "#777777")
FAINT = "#cccccc"
FEWEST = 1e-2  # new attention over old, from where a sweep is shown
COLOURS = {"slots": SLOTS, "quiet slots": QUIET, "units, matched": UNITS, "units, d": "#e3a37f"}
MEASURES = {"step": ("one step", "state"), "run": ("along a text", "state"), "text": ("text vector", "vector")}


def draw_theorem(report: TheoremReport, path: str | Path | BinaryIO) -> None:
    """Write a PNG (or what else the name's ending says): closed forms, the assumption, and trained models if any."""
    fields = [_draw_drawn, _draw_bound, _draw_sweep, *([_draw_measured] if report.measured else [])]
    columns = 2 if len(fields) == 4 else 3
    rows = len(fields) // columns
    figure = new_figure(SIDE * columns, HEIGHT * rows)
    for axis, field in zip(figure.subplots(rows, columns).flat, fields, strict=True):
        field(axis, report)
    figure.savefig(path, dpi=DPI)


def _draw_drawn(axis: "Axes", report: TheoremReport) -> None:
    """Monte Carlo over closed form, for each choice of sizes."""
    rows = report.drawn.values()
    sides = (
        ("hidden units added", UNITS, -0.15, [(row.state, row.sizes.state_change()) for row in rows]),
        ("slots added", SLOTS, 0.15, [(row.memory, row.memory_closed()) for row in rows]),
    )
    for name, colour, lift, values in sides:
        axis.errorbar(
            [drawn.mean / closed for drawn, closed in values],
            [place + lift for place in range(len(values))],
            xerr=[2 * drawn.error / closed for drawn, closed in values],
            fmt="o",
            markersize=4,
            color=colour,
            label=name,
        )
    axis.axvline(1, color=FAINT, lw=1, zorder=0)
    _name_rows(axis, report)
    axis.set_xlabel("mean of the draws over closed form, ± 2 standard errors")
    axis.set_title("the closed forms hold", fontsize=11)
    axis.legend(frameon=False, fontsize=8)


def _draw_bound(axis: "Axes", report: TheoremReport) -> None:
    """Slots over hidden units, apart for draws in which the assumption holds and in which it does not."""
    holding = [row.memory_holding for row in report.drawn.values()]
    failing = [row.memory_failing for row in report.drawn.values()]
    units = [row.sizes.state_change() for row in report.drawn.values()]
    for part, name, fill in ((holding, "assumption holds", SLOTS), (failing, "it does not", "white")):
        found = [(slots.mean / units[place], place) for place, slots in enumerate(part) if slots is not None]
        axis.plot(*zip(*found, strict=True), "o", color=SLOTS, markerfacecolor=fill, markersize=6, label=name)
    axis.axvline(1, color=UNITS, lw=1.2)
    axis.set_xscale("log")
    _name_rows(axis, report)
    axis.set_xlabel("change by slots over change by hidden units")
    axis.set_title("the bound (1), and where it gives way", fontsize=11)
    axis.legend(frameon=False, fontsize=8, loc="upper left")


def _name_rows(axis: "Axes", report: TheoremReport) -> None:
    axis.set_yticks(range(len(report.drawn)), list(report.drawn), fontsize=8.5)
    axis.invert_yaxis()
    axis.grid(axis="y", color=FAINT, lw=0.4)


def _draw_sweep(axis: "Axes", report: TheoremReport) -> None:
    """Slots over hidden units as the new slots get more of the attention."""
    safe = report.always_safe
    axis.axvspan(FEWEST, 1, color=SLOTS, alpha=0.07, lw=0)
    axis.text(FEWEST * 1.2, 0.55, "assumed", color=SLOTS, fontsize=8.5)
    axis.axhline(1, color=UNITS, lw=1.2)
    axis.text(FEWEST * 1.2, 1.03, "as far as hidden units", color=UNITS, fontsize=8.5)
    axis.axvline(safe, color="#888888", lw=1, ls=":")
    axis.text(safe * 1.15, 2.05, "1 + √2", color="#666666", fontsize=8.5)
    ratios = [FEWEST * 10 ** (step / 40) for step in range(201)]
    for sweep, colour in zip(report.swept, LINES, strict=False):
        shape = 1 / sweep.old_read + 1 / sweep.new_read
        axis.plot(ratios, [(r / (1 + r)) ** 2 * shape for r in ratios], color=colour, lw=1.3)
        points = [point for point in sweep.points if point.ratio >= FEWEST]
        axis.errorbar(
            [point.ratio for point in points],
            [point.measured.mean for point in points],
            yerr=[2 * point.measured.error for point in points],
            fmt="o",
            markersize=3.5,
            color=colour,
            label=sweep.shape,
        )
    axis.set(xscale="log", xlim=(ratios[0], ratios[-1]), ylim=(0, 2.15))
    axis.set(
        xlabel="attention of new slots over that of old ones", ylabel="change by slots over change by hidden units"
    )
    axis.set_title("attention set by hand: lines closed form, dots drawn", fontsize=11)
    axis.legend(frameon=False, fontsize=8, title="slots read", title_fontsize=8, loc="upper left")


def _draw_measured(axis: "Axes", report: TheoremReport) -> None:
    """Measured changes of trained models, by the ways of growing."""
    measured = report.measured
    wide = 0.8 / len(COLOURS)
    for number, (growth, colour) in enumerate(COLOURS.items()):
        for place, (part, (_, size)) in enumerate(MEASURES.items()):
            values = [100 * getattr(one.effects[growth], part).mean / getattr(one, size) for one in measured]
            at = place + (number - (len(COLOURS) - 1) / 2) * wide
            axis.bar(at, fmean(values), wide * 0.92, color=colour, label=growth if place == 0 else None)
            axis.plot([at] * len(values), values, "o", color="black", markersize=2.5)
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.set_ylim(low, high * 10 ** (0.25 * math.log10(high / low)))  # room for the legend
    axis.set_xticks(range(len(MEASURES)), [name for name, _ in MEASURES.values()])
    axis.set_ylabel("squared change, % of squared size")
    count = len(measured)
    axis.set_title("a trained model, just grown" + (f": mean of {count}, each a dot" if count > 1 else ""), fontsize=11)
    axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper center")
