"""The study of pretrained encoders as a picture, from the JSON files of its figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from research.common.plots import figures_in, panels, save, write_labels
from research.encoders.figures import ALL_ORDERS
from research.encoders.report import Figures, chosen, few, shown_orders
from research.encoders.streams import STREAMS

REFERENCES = ("in-domain", "multi-task")  # what to be measured by: both need more than a stream gives
CONTROLS = ("adapter", "fixed keys", "one slot", "head only")
WITH_SLOTS = ("frozen+M", "F+M", "F+M+A", "sparse")
MEAN = "mean of all orders"
NAMED = 5  # domains that there is room to name
PANEL = (7.6, 5.2)  # inches; one below the other, to be read on a narrow page too
COLOURS = {"with slots": "#1f6f8b", "controls of frozen+M": "#b0642a", "others": "#4a545c"}


def draw_study(folder: Path, picture: Path) -> None:
    """Draw accuracy at the end against what was forgotten: a point for each row of enough seeds.

    There is a panel for each stream and encoder that has such rows: of the mean over its orders, or else of each order.
    """
    shown = [
        (f"{found['stream']}, {name}: {_title(order, figures['orders'][order])}", points)
        for found in sorted(figures_in(folder), key=_place_in_the_study)
        for name, figures in found["encoders"].items()
        for order in _drawn_orders(figures)
        if (points := _points(figures, figures["orders"][order])).keys() - REFERENCES
    ]
    figure, axes = panels(len(shown), *PANEL)
    for axis, (title, points) in zip(axes, shown, strict=False):
        _draw_panel(axis, points)
        axis.set_title(title, fontsize=10)
    figure.draw_without_rendering()  # labels are placed by what they cover
    for axis, (_, points) in zip(axes, shown, strict=False):
        _write_labels(axis, points)
    save(figure, picture, folder)


def _place_in_the_study(found: Mapping[str, Any]) -> int:
    known = list(STREAMS)
    return known.index(found["stream"]) if found["stream"] in known else len(known)


def _drawn_orders(figures: Figures) -> Sequence[str]:
    orders = shown_orders(figures)
    return orders[:1] if ALL_ORDERS in orders else orders


def _title(order: str, one: Figures) -> str:
    domains = one.get("domains")
    if domains is None:
        return MEAN
    return ", ".join(domains) if len(domains) <= NAMED else f"order {order}, {len(domains)} domains"


Points = Mapping[str, tuple[str, Mapping[str, Any]]]
"""By row, its label and its figures."""


def _points(figures: Figures, one: Figures) -> dict[str, tuple[str, Mapping[str, Any]]]:
    rows = one["rows"]
    return {name: (label, rows[name]["test"]) for name, label in chosen(figures, one).items() if not few(rows[name])}


def _draw_panel(axis: Any, points: Points) -> None:
    for name, (_, test) in points.items():
        level = 100 * test["average"]["mean"]
        if name in REFERENCES:
            axis.axhline(level, color="#c1666b", linestyle=":" if name == "in-domain" else "--", linewidth=1)
            axis.annotate(name, (1, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8)
            continue
        axis.errorbar(
            100 * test["forgetting"]["mean"],
            level,
            xerr=100 * (test["forgetting"]["spread"] or 0),
            yerr=100 * (test["average"]["spread"] or 0),
            marker="o",
            markersize=5,
            linewidth=0.6,
            alpha=0.8,
            color=_colour(name),
        )
    for kind, colour in COLOURS.items():
        axis.plot([], [], "o", markersize=5, color=colour, label=kind)
    axis.legend(loc="lower right", fontsize=8)
    axis.set_xlabel("forgotten at the end, points (mean and standard deviation over seeds)")
    axis.set_ylabel("average test accuracy at the end, %")
    axis.grid(alpha=0.3)


def _colour(name: str) -> str:
    kinds = ("with slots", name in WITH_SLOTS), ("controls of frozen+M", name in CONTROLS), ("others", True)
    return COLOURS[next(kind for kind, so in kinds if so)]


def _write_labels(axis: Any, points: Points) -> None:
    from matplotlib.transforms import Bbox

    rows = {name: one for name, one in points.items() if name not in REFERENCES}
    places = {
        name: (100 * test["forgetting"]["mean"], 100 * test["average"]["mean"]) for name, (_, test) in rows.items()
    }
    bars = [axis.transData.transform(bar) for lines in axis.collections for bar in lines.get_segments()]
    ends = [100 * test["average"]["mean"] for name, (_, test) in points.items() if name in REFERENCES]
    levels = [axis.transData.transform((0, end)) for end in ends]
    taken = [
        *(Bbox([bar.min(axis=0), bar.max(axis=0)]).padded(1) for bar in bars),
        *(Bbox.from_extents(axis.bbox.x0, y - 1, axis.bbox.x1, y + 1) for _, y in levels),
        *(one.get_window_extent() for one in (*axis.texts, axis.get_legend())),
    ]
    labels = {name: label for name, (label, _) in rows.items()}
    write_labels(axis, places, labels, {name: _colour(name) for name in rows}, taken)
