"""The study of pretrained encoders as tables and a picture, from the JSON files of its figures."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from memgrow.report.plots import DPI, new_figure
from memgrow.report.table import MISSING, Table, p_value, signed, to_page

Figures = Mapping[str, Any]
"""What is known of one stream with one encoder."""

ALL = "all"  # the mean over all orders
NO_FIGURES = "There are no figures as yet."
REFERENCES = ("in-domain", "multi-task")  # what to be measured by: both need more than a stream gives
CONTROLS = ("adapter", "fixed keys", "one slot", "head only")
WITH_SLOTS = ("frozen+M", "F+M", "F+M+A", "sparse")
PANEL = (4.6, 4.0)  # inches
COLOURS = {"slots": "#1f6f8b", "controls": "#b0642a", "others": "#6b7680"}

HEADER = (
    *("row", "average at the end, %", "forgetting, points", "when learnt, %", "validation, %"),
    *("new parameters a domain", "trained parameters", "seconds"),
)


def study_page(found: Mapping[str, Any]) -> str:
    """The tables of one stream: for each encoder the rows, then what the study asked."""
    parts: list[Table | str] = []
    for name, figures in found["encoders"].items():
        for order in shown_orders(figures):
            parts += [_heading(name, figures, order), rows_table(figures, order), questions_table(figures, order)]
    return to_page(parts) if parts else NO_FIGURES


def shown_orders(figures: Figures) -> Sequence[str]:
    """The mean over all orders where there are several, and the first order if it has rows that others lack."""
    orders = figures["orders"]
    first = list(orders)[:1]
    if ALL not in orders:
        return first
    return [ALL] if orders[ALL]["rows"].keys() >= orders[first[0]]["rows"].keys() else [*first, ALL]


def rows_table(figures: Figures, order: str) -> Table:
    """A line for each row: means over seeds, and their standard deviation."""
    found = figures["orders"][order]["rows"]
    return Table(None, HEADER, [_line(name, found[name], label) for name, label in chosen(figures, order).items()])


def chosen(figures: Figures, order: str) -> dict[str, str]:
    """The rows that are shown, and what they are called there: of a row's variants the best on validation data."""
    best, about = figures["orders"][order]["chosen"], figures["rows"]
    return {name: _label(family, name, about) for family, name in best.items()}


def _label(family: str, name: str, about: Mapping[str, Any]) -> str:
    if not any(one["variant_of"] == family for one in about.values()):
        return family
    options = about[name]["options"].items()
    return f"{family} ({', '.join(f'{option} {value:g}' for option, value in options) or 'default'})"


def _line(name: str, row: Mapping[str, Any], label: str) -> list[str]:
    test, seconds = row["test"], row["seconds_alone"]
    return [
        label,
        _percent(test.get("average")),
        _percent(test.get("forgetting")),
        _percent(test.get("when_learnt")),
        _percent(row["validation"].get("average"), spread=False),
        f"{row['added']:,.0f}",
        MISSING if row["trained"] is None else f"{row['trained']:,}",
        MISSING if seconds is None else f"{seconds:,.0f}",
    ]


def _percent(cell: Mapping[str, Any] | None, spread: bool = True) -> str:
    if cell is None:
        return MISSING
    around = f" ± {100 * cell['spread']:.1f}" if spread and cell["spread"] is not None else ""
    return f"{100 * cell['mean']:.1f}{around}".replace("-", "−")


def questions_table(figures: Figures, order: str) -> Table:
    """What the study asked: differences seed by seed, with 95% intervals."""
    rows = []
    for question, one in figures["orders"][order]["differences"].items():
        end, lost, asked = one["test"]["average"], one["test"].get("forgetting"), question.replace(" - ", " against ")
        rows.append([asked, _interval(end), p_value(end["p_holm"]), _interval(lost)])
    header = ("question", "average, points [95% interval]", "p (Holm)", "forgetting, points [95% interval]")
    return Table(None, header, rows)


def _interval(test: Mapping[str, Any] | None) -> str:
    if test is None:
        return MISSING
    mean = signed(100 * test["difference"])
    return mean if test["low"] is None else f"{mean} [{signed(100 * test['low'])}, {signed(100 * test['high'])}]"


def _heading(name: str, figures: Figures, order: str) -> str:
    seeds = max(len(row["seeds"]) for row in figures["orders"][order]["rows"].values())
    number = sum(other != ALL for other in figures["orders"])
    orders = f"the mean of {number} orders" if order == ALL else ", ".join(figures["orders"][order]["domains"])
    weights = f"weights {figures['rounded_from'] or figures['weights']}"
    rounded = ", rounded to float16" if figures["rounded_from"] else ""
    return f"**{name}**, {orders}; {seeds} seeds. SHA-256 of the {weights}{rounded}."


def slots_taken_away(found: Mapping[str, Any]) -> Table:
    """Rows with slots, tested as they are and without them."""
    rows = []
    for encoder, figures in found["encoders"].items():
        for order in shown_orders(figures):
            for name, row in figures["orders"][order]["rows"].items():
                if silent := row["test"].get("without_slots"):
                    rows.append([encoder, name, _percent(row["test"]["average"]), _percent(silent)])
    return Table(None, ("encoder", "row", "average at the end, %", "without its slots, %"), rows)


def draw_study(folder: Path, picture: str | Path | BinaryIO) -> None:
    """Draw accuracy when learnt against what is forgotten: a panel for each stream and encoder, a point for each row.

    The picture carries a checksum of what it shows, so that a test can tell when it is out of date.
    """
    panels = [
        (f"{found['stream']}, {name}", figures)
        for found in _read(folder)
        for name, figures in found["encoders"].items()
        if figures["orders"]
    ]
    figure = new_figure(PANEL[0] * max(len(panels), 1), PANEL[1])
    for axis, (title, figures) in zip(
        figure.subplots(1, max(len(panels), 1), squeeze=False).flat, panels, strict=False
    ):
        _draw_panel(axis, figures, shown_orders(figures)[0])
        axis.set_title(title, fontsize=10)
    figure.savefig(picture, dpi=DPI, format="png", metadata={"Description": checksum(folder)})


def _draw_panel(axis: Any, figures: Figures, order: str) -> None:
    rows = figures["orders"][order]["rows"]
    for name, label in chosen(figures, order).items():
        test = rows[name]["test"]
        if name in REFERENCES:
            level = 100 * test["average"]["mean"]
            axis.axhline(level, color="#c1666b", linestyle=":" if name == "in-domain" else "--", linewidth=1)
            axis.annotate(name, (1, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7)
            continue
        lost, learnt = test["forgetting"], test["when_learnt"]
        kind = "slots" if name in WITH_SLOTS else "controls" if name in CONTROLS else "others"
        axis.errorbar(
            100 * lost["mean"],
            100 * learnt["mean"],
            xerr=100 * (lost["spread"] or 0),
            yerr=100 * (learnt["spread"] or 0),
            marker="o",
            markersize=4,
            linewidth=0.8,
            color=COLOURS[kind],
        )
        place = (100 * lost["mean"], 100 * learnt["mean"])
        axis.annotate(label, place, xytext=(4, 3), textcoords="offset points", fontsize=7, color=COLOURS[kind])
    axis.set_xlabel("forgotten at the end, points")
    axis.set_ylabel("test accuracy when learnt, %")
    axis.grid(alpha=0.3)


def checksum(folder: Path) -> str:
    """The checksum of the files that the picture is made from."""
    there = sorted(folder.glob("*.json"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in there)).hexdigest()


def _read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
