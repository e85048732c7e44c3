"""Which method is the default, as a picture: what a candidate gains when learning against what it forgets later."""

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from research.common.plots import figures_in, panels, save, write_labels
from research.which_method.report import NAMES, UNITS, Figures

PANEL = (7.2, 4.4)  # inches; one below the other, to be read on a narrow page too
ORDER = tuple(NAMES)
COLOURS = {"winner": "#1f6f8b", "out": "#b9b1a7", "left": "#4a545c", "baseline": "#c1666b"}
SAID = {
    "winner": "wins on these streams",
    "left": "not clearly below the baseline on any",
    "out": "clearly below it on one",
    "baseline": "baseline",
}
FAR = 2  # times as far from the baseline as anything else: who is that, and out, is told beside the points
SPAN = 0.5  # of a panel at the least, to each side of the baseline: what is level is to look level

Point = tuple[float, float]
"""What is forgotten and what is gained when learned, both less the baseline's."""


def draw_choice(folder: Path, picture: Path) -> None:
    """Draw a panel for each family: its candidates on the streams for choosing, as differences from the baseline."""
    families = sorted(figures_in(folder), key=lambda one: ORDER.index(one["family"]) if one["family"] in ORDER else 0)
    shown = [(one, found) for one in families if (found := points(one))]
    figure, axes = panels(len(shown), *PANEL)
    for axis, (family, found) in zip(axes, shown, strict=False):
        _draw_panel(axis, family, found)
    figure.draw_without_rendering()  # labels are placed by what they cover
    for axis, (family, found) in zip(axes, shown, strict=False):
        _write_labels(axis, family, found)
    save(figure, picture, folder)


def points(family: Figures) -> dict[str, tuple[Point, list[Point]]]:
    """By candidate, the mean over the streams for choosing that it was run on, and each of these."""
    found: dict[str, tuple[Point, list[Point]]] = {}
    for name in family["candidates"]:
        rows = [one["rows"].get(name) for one in family["streams"].values() if one["part"] == "choosing"]
        against = [row["against"] for row in rows if row and row["against"] and row["against"]["average"]]
        each = [tuple(100 * one[what]["difference"] for what in ("forgetting", "when_learnt")) for one in against]
        if name != family["baseline"] and each:
            found[name] = ((fmean(x for x, _ in each), fmean(y for _, y in each)), each)
    return found


def _kind(name: str, family: Figures) -> str:
    choice = family["choice"]
    return "out" if name in choice["out"] else "winner" if name == choice["winner"] else "left"


def far_off(family: Figures, found: Mapping[str, tuple[Point, list[Point]]]) -> set[str]:
    """Who would press all others into a corner: it is told in words."""
    away = {name: math.hypot(*middle) for name, (middle, _) in found.items()}
    furthest = max(away, key=away.__getitem__)
    others = [one for name, one in away.items() if name != furthest]
    is_far = others and _kind(furthest, family) == "out" and away[furthest] > FAR * max(others)
    return {furthest} if is_far else set()


def _draw_panel(axis: Any, family: Figures, found: Mapping[str, tuple[Point, list[Point]]]) -> None:
    unit = UNITS[family["is_dialogue"]]
    axis.axhline(0, color="#dddddd", linewidth=0.8, zorder=0)
    axis.axvline(0, color="#dddddd", linewidth=0.8, zorder=0)
    kinds, far = {_kind(name, family) for name in found}, far_off(family, found)
    for name, (middle, each) in found.items():
        if name in far:
            axis.plot([], [], " ", label=f"{name}, far off: {middle[0]:+.1f} forgotten, {middle[1]:+.1f} when learnt")
            continue
        colour = COLOURS[_kind(name, family)]
        for x, y in each if len(each) > 1 else ():
            axis.plot([middle[0], x], [middle[1], y], color=colour, linewidth=0.5, alpha=0.35, zorder=1)
            axis.plot(x, y, ".", color=colour, markersize=4, alpha=0.5, zorder=1)
        axis.plot(*middle, "o", markersize=7, color=colour, zorder=3)
    axis.plot(0, 0, "D", markersize=7, color=COLOURS["baseline"], zorder=3)
    for kind, colour in COLOURS.items():
        if kind in kinds or kind == "baseline":
            label = f"{SAID[kind]}: {family['baseline']}" if kind == "baseline" else SAID[kind]
            axis.plot([], [], "D" if kind == "baseline" else "o", markersize=6, color=colour, label=label)
    for low, high, put in ((*axis.get_xlim(), axis.set_xlim), (*axis.get_ylim(), axis.set_ylim)):
        put(min(low, -SPAN), max(high, SPAN))
    axis.legend(loc="best", fontsize=8)  # where it covers least
    streams = len(family["choice"]["streams"])
    axis.set_title(f"{NAMES[family['family']]}: {streams} stream{'s' * (streams != 1)} for choosing", fontsize=10)
    axis.set_xlabel(f"forgotten at the end, {unit} against {family['baseline']} (left is better)")
    axis.set_ylabel(f"when learnt, {unit} against {family['baseline']} (up is better)")
    axis.grid(alpha=0.2)


def _write_labels(axis: Any, family: Figures, found: Mapping[str, tuple[Point, list[Point]]]) -> None:
    far = far_off(family, found)
    places = {name: middle for name, (middle, _) in found.items() if name not in far}
    places |= {family["baseline"]: (0.0, 0.0)}
    kinds = {name: "baseline" if name == family["baseline"] else _kind(name, family) for name in places}
    colours = {name: COLOURS[kind] for name, kind in kinds.items()}
    write_labels(axis, places, {name: name for name in places}, colours, [axis.get_legend().get_window_extent()])
