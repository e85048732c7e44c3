"""Theorem 1 in numbers as tables for a terminal of 80 columns, made from what `theorem_report` returns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memgrow.report.table import UNKNOWN, percent

Report = Mapping[str, Any]

SHOWN = (1.0, 3.0, 10.0, 1000.0)  # ratios of a sweep that the table has room for

EXPLANATION = (
    "In words: slots move the states S times as far (squared) as units do, S = p² (1/A + 1/B), where p is the new "
    "slots' share of attention, and A and B say how many old and how many new slots are in effect read. The theorem "
    "asks for S ≤ 1 and assumes p ≤ 1/2, which gives S ≤ 1/2: the assumption is sufficient, not necessary. S ≤ 1 for "
    "every attention as long as new slots get at most 1 + √2 = 2.41 times what old ones get; and for any share if "
    "1/A + 1/B ≤ 1, as when two slots or more share the attention evenly on both sides. It takes a few slots with "
    "nearly all of the attention to break the bound, and S never exceeds 2."
)


def theorem_tables(report: Report) -> Iterator[RenderableType]:
    """Everything that is printed, from top to bottom."""
    yield drawn_table(report["drawn"])
    yield sweep_table(report["swept"])
    yield tied_table(report["tied"])
    yield Text(EXPLANATION)
    for measured in report["measured"]:
        yield measured_table(measured)
        yield Text(measured_line(measured))


def drawn_table(drawn: Mapping[str, Report]) -> Table:
    """Closed form and Monte Carlo of both sides, and the bound where the assumption holds and where it does not."""
    base = drawn["base"]["sizes"]
    table = _table(
        "E|h' - h|² when d units, or M slots, are added: closed form; drawn over it\n"
        f"(S: slots over units; D = d = N = M = {base['old']}, σ = {base['sigma']} unless said)",
        ("", "units", "drawn", "slots", "drawn", "holds", "S", "if held", "if not"),
    )
    for name, row in drawn.items():
        table.add_row(
            name,
            _number(row["state_closed"]),
            _against(row["state"], row["state_closed"]),
            _number(row["memory_closed"]),
            _against(row["memory"], row["memory_closed"]),
            f"{100 * row['holds']:.0f}%",
            *(_number(row[part] and row[part]["mean"], 2) for part in ("shift", "shift_holding", "shift_failing")),
        )
    return table


def sweep_table(swept: Sequence[Report]) -> Table:
    """Slots over units as the new slots get more and more of the attention, which is set by hand."""
    table = _table(
        "S when new slots get r times the attention of old ones: drawn (closed form)",
        ("slots read", *(f"r = {ratio:g}" for ratio in SHOWN), "S > 1 above"),
    )
    for sweep in swept:
        points = {point["ratio"]: point for point in sweep["points"]}
        cells = [f"{points[r]['measured']['mean']:.2f} ({points[r]['closed']:.2f})" for r in SHOWN]
        limit = sweep["breaks_at"]
        table.add_row(sweep["shape"], *cells, "never" if limit is None else f"r = {limit:.2f}")
    return table


def tied_table(tied: Mapping[str, Report]) -> Table:
    """What becomes of the closed form, which has keys and values independent, where the values are the keys."""
    table = _table(
        "If the values are the keys (M = 50): slots, drawn over closed form",
        ("", "values apart", "values = keys", "holds", "S if held, = keys"),
    )
    for name, row in tied.items():
        table.add_row(
            name,
            _against(row["memory"], row["memory_closed"]),
            _against(row["tied"], row["memory_closed"]),
            f"{100 * row['holds']:.0f}%",
            _against(row["tied_holding"], row["state_closed"]) if row["tied_holding"] else UNKNOWN,
        )
    return table


def measured_table(measured: Report) -> Table:
    """A trained model just after growth; squared changes in percent of the squared size of what changes."""
    where = " on ".join(part for part in (measured["model"], measured["domain"]) if part)
    table = _table(
        f"{where}, just grown: squared change, % of squared size",
        ("growth", "parameters", "holds", "one step", "along text", "vector", "new label", "right"),
    )
    for name, effect in measured["effects"].items():
        table.add_row(
            name,
            f"{effect['parameters']:,}",
            UNKNOWN if effect["holds"] is None else f"{100 * effect['holds']['mean']:.0f}%",
            *(_number(100 * effect[part]["mean"] / measured["state"]) for part in ("step", "run")),
            _number(100 * effect["text"]["mean"] / measured["vector"]),
            f"{percent(effect['changed']['mean'])}%",
            f"{percent(effect['accuracy']['mean'])}%",
        )
    return table


def measured_line(measured: Report) -> str:
    """The measured ratio of slots to matched units, and what the attention is like."""
    slots, units = (measured["effects"][name] for name in ("slots", "units, matched"))
    ratios = [_number(slots[part]["mean"] / units[part]["mean"]) for part in ("step", "run")]
    silenced = slots["silenced"]["mean"] / slots["content"]["mean"]
    return (
        f"Slots over matched units: {ratios[0]} in one step, {ratios[1]} along a text. New slots get "
        f"{percent(slots['share']['mean'])}% of the attention; {measured['read']:,.0f} of {measured['slots']:,} old "
        f"slots are in effect read. Of what the memory's answer changes by, {percent(silenced)}% is the old slots' "
        f"voice grown weaker. Right before growth: {percent(measured['accuracy'])}%."
    )


def _against(estimate: Report, closed: float) -> str:
    return f"{estimate['mean'] / closed:.3f}±{estimate['error'] / closed:.3f}"


def _number(value: float | None, digits: int = 3) -> str:
    """So many digits that count."""
    if value is None:
        return UNKNOWN
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if value >= 1e-3 or not value else f"{value:.{digits - 1}e}".replace("e-0", "e-")


def _table(title: str, names: Sequence[str]) -> Table:
    # A title may hold a name of the user's own, which is never markup.
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=0)
    for name in names:
        table.add_column(name, justify="left" if name == names[0] else "right", no_wrap=True)
    return table
