"""Theorem 1 in numbers as tables: for a terminal of 80 columns, and for a page."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from research.common.tables import UNKNOWN, Table, percent, to_page
from research.theorem.closed_form import Estimate
from research.theorem.measure import Expansion
from research.theorem.report import TheoremReport
from research.theorem.simulate import Drawn, Sweep

SHOWN = (1.0, 3.0, 10.0, 1000.0)  # ratios of a sweep that the table has room for

EXPLANATION = (
    "In words: slots move the states S times as far (squared) as units do, S = p² (1/A + 1/B), where p is the new "
    "slots' share of attention, and A and B say how many old and how many new slots are in effect read. The theorem "
    "asks for S ≤ 1 and assumes p ≤ 1/2, which gives S ≤ 1/2: the assumption is sufficient, not necessary. S ≤ 1 for "
    "every attention as long as new slots get at most 1 + √2 = 2.41 times what old ones get; and for any share if "
    "1/A + 1/B ≤ 1, as when two slots or more share the attention evenly on both sides. It takes a few slots with "
    "nearly all of the attention to break the bound, and S never exceeds 2."
)


def theorem_tables(report: TheoremReport) -> Iterator[Table | str]:
    """Everything that is printed, from top to bottom."""
    yield drawn_table(report.drawn)
    yield sweep_table(report.swept)
    yield tied_table(report.tied)
    yield EXPLANATION
    for measured in report.measured:
        yield measured_table(measured)
        yield measured_line(measured)


def theorem_markdown(figures: Mapping[str, Any]) -> str:
    """The same for a page, from the JSON that `python -m research.paper theorem` has written."""
    return to_page([*theorem_tables(TheoremReport.from_json(figures)), f"From `{figures['command']}`."])


def drawn_table(drawn: Mapping[str, Drawn]) -> Table:
    """Closed form and Monte Carlo of both sides, and the bound where the assumption holds and where it does not."""
    base = drawn["base"].sizes
    rows = []
    for name, row in drawn.items():
        state, memory = row.sizes.state_change(), row.memory_closed()
        shifts = (row.shift, row.shift_holding, row.shift_failing)
        rows.append(
            (
                name,
                _number(state),
                _against(row.state, state),
                _number(memory),
                _against(row.memory, memory),
                f"{100 * row.holds:.0f}%",
                *(_number(None if shift is None else shift.mean, 2) for shift in shifts),
            )
        )
    return Table(
        "E|h' - h|² when d units, or M slots, are added: closed form; drawn over it\n"
        f"(S: slots over units; D = d = N = M = {base.old}, σ = {base.sigma} unless said)",
        ("sizes", "units", "drawn", "slots", "drawn", "holds", "S", "if held", "if not"),
        rows,
    )


def sweep_table(swept: Sequence[Sweep]) -> Table:
    """Slots over units as the new slots get more and more of the attention, which is set by hand."""
    rows = []
    for sweep in swept:
        points = {point.ratio: point for point in sweep.points}
        cells = [f"{points[ratio].measured.mean:.2f} ({points[ratio].closed:.2f})" for ratio in SHOWN]
        limit = f"r = {sweep.breaks_at:.2f}" if isfinite(sweep.breaks_at) else "never"
        rows.append((sweep.shape, *cells, limit))
    return Table(
        "S when new slots get r times the attention of old ones: drawn (closed form)",
        ("slots read", *(f"r = {ratio:g}" for ratio in SHOWN), "S > 1 above"),
        rows,
    )


def tied_table(tied: Mapping[str, Drawn]) -> Table:
    """A table of what becomes of the closed form, which has keys and values independent, where both are the same."""
    rows = [
        (
            name,
            _against(row.memory, row.memory_closed()),
            _against(row.tied, row.memory_closed()),
            f"{100 * row.holds:.0f}%",
            _against(row.tied_holding, row.sizes.state_change()),
        )
        for name, row in tied.items()
    ]
    return Table(
        "If the values are the keys (M = 50): slots, drawn over closed form",
        ("sizes", "values apart", "values = keys", "holds", "S if held, = keys"),
        rows,
    )


def measured_table(measured: Expansion) -> Table:
    """A trained model just after growth; squared changes in percent of the squared size of what changes."""
    rows = [
        (
            name,
            f"{effect.parameters:,}",
            UNKNOWN if effect.holds is None else f"{100 * effect.holds.mean:.0f}%",
            _number(100 * effect.step.mean / measured.state),
            _number(100 * effect.run.mean / measured.state),
            _number(100 * effect.text.mean / measured.vector),
            f"{percent(effect.changed.mean)}%",
            f"{percent(effect.accuracy.mean)}%",
        )
        for name, effect in measured.effects.items()
    ]
    where = " on ".join(part for part in (measured.model, measured.domain) if part)
    return Table(
        f"{where}, just grown: squared change, % of squared size",
        ("growth", "parameters", "holds", "one step", "along text", "vector", "new label", "right"),
        rows,
    )


def measured_line(measured: Expansion) -> str:
    """The measured ratio of slots to matched units, and what the attention is like."""
    slots, units = measured.effects["slots"], measured.effects["units, matched"]
    share = slots.share.mean if slots.share else None
    silenced = slots.silenced.mean / slots.content.mean if slots.silenced else None
    return (
        f"Slots over matched units: {_number(slots.step.mean / units.step.mean)} in one step, "
        f"{_number(slots.run.mean / units.run.mean)} along a text. New slots get "
        f"{percent(share)}% of the attention; {measured.read:,.0f} of {measured.slots:,} old "
        f"slots are in effect read. Of what the memory's answer changes by, {percent(silenced)}% is the old slots' "
        f"voice grown weaker. Right before growth: {percent(measured.accuracy)}%."
    )


def _against(estimate: Estimate | None, closed: float) -> str:
    return UNKNOWN if estimate is None else f"{estimate.mean / closed:.3f}±{estimate.error / closed:.3f}"


def _number(value: float | None, digits: int = 3) -> str:
    """With this many digits that count."""
    if value is None:
        return UNKNOWN
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if value >= 1e-3 or not value else f"{value:.{digits - 1}e}".replace("e-0", "e-")
