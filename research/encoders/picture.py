"""The study of pretrained encoders as a picture, from the JSON files of its figures."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO

from research.common.plots import DPI, new_figure
from research.encoders.figures import ALL_ORDERS
from research.encoders.report import Figures, chosen, few, shown_orders
from research.encoders.streams import STREAMS

REFERENCES = ("in-domain", "multi-task")  # what to be measured by: both need more than a stream gives
CONTROLS = ("adapter", "fixed keys", "one slot", "head only")
WITH_SLOTS = ("frozen+M", "F+M", "F+M+A", "sparse")
MEAN = "mean of all orders"
NAMED = 5  # domains that there is room to name
PANEL = (7.6, 5.2)  # inches; one below the other, to be read on a narrow page too
OFFSETS = [(side * right, up) for right, up in product((7, 25, 50), (0, 9, -9, 18, -18, 28, -28)) for side in (1, -1)]
COLOURS = {"with slots": "#1f6f8b", "controls of frozen+M": "#b0642a", "others": "#4a545c"}


def draw_study(folder: Path, picture: str | Path | BinaryIO) -> None:
    """Draw accuracy at the end against what was forgotten: a point for each row of enough seeds.

    There is a panel for each stream and encoder that has such rows: of the mean over its orders, or else of each order.
    The picture carries a checksum of what it shows, so that a test can tell when it is out of date.
    """
    panels = [
        (f"{found['stream']}, {name}: {_title(order, figures['orders'][order])}", points)
        for found in sorted(figures_in(folder), key=_place_in_the_study)
        for name, figures in found["encoders"].items()
        for order in _drawn_orders(figures)
        if (points := _points(figures, figures["orders"][order])).keys() - REFERENCES
    ]
    number = max(len(panels), 1)
    figure = new_figure(PANEL[0], PANEL[1] * number)
    figure.set_dpi(DPI)
    axes = list(figure.subplots(number, squeeze=False).flat)
    for axis, (title, points) in zip(axes, panels, strict=False):
        _draw_panel(axis, points)
        axis.set_title(title, fontsize=10)
    figure.draw_without_rendering()  # labels are placed by what they cover
    for axis, (_, points) in zip(axes, panels, strict=False):
        _write_labels(axis, points)
    figure.savefig(picture, dpi=DPI, format="png", metadata={"Description": checksum(folder)})


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
    """Write each label at the first place around its point where it covers no point, no line and no other label."""
    from matplotlib.transforms import Bbox

    places = {
        name: (100 * test["forgetting"]["mean"], 100 * test["average"]["mean"])
        for name, (_, test) in points.items()
        if name not in REFERENCES
    }
    dots = [axis.transData.transform(place) for place in places.values()]
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in dots]
    bars = [axis.transData.transform(bar) for lines in axis.collections for bar in lines.get_segments()]
    taken += [Bbox([bar.min(axis=0), bar.max(axis=0)]).padded(1) for bar in bars]
    ends = [100 * test["average"]["mean"] for name, (_, test) in points.items() if name in REFERENCES]
    levels = [axis.transData.transform((0, end)) for end in ends]
    taken += [Bbox.from_extents(axis.bbox.x0, y - 1, axis.bbox.x1, y + 1) for _, y in levels]
    taken += [one.get_window_extent() for one in (*axis.texts, axis.get_legend())]
    for name, place in sorted(places.items(), key=lambda one: one[1]):
        look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": _colour(name)}
        for right, up in OFFSETS:
            side = "left" if right > 0 else "right"
            written = axis.annotate(points[name][0], place, xytext=(right, up), ha=side, **look)
            box = written.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                break
            written.remove()
        else:
            continue  # there is no room: better no label than one that cannot be read
        taken.append(box)
        line = {"arrowstyle": "-", "linewidth": 0.5, "color": _colour(name)}
        axis.annotate("", place, xytext=(right, up), textcoords="offset points", arrowprops=line)


def checksum(folder: Path) -> str:
    """The checksum of the files that the picture is made from."""
    there = sorted(folder.glob("*.json"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in there)).hexdigest()


def figures_in(folder: Path) -> list[dict[str, Any]]:
    """What the files in a folder of figures hold."""
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
