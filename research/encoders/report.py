"""The study of pretrained encoders as tables, from the JSON files of its figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from research.common.statistics import paired_over_seeds
from research.common.tables import MISSING, Table, p_value, signed, to_page
from research.encoders.figures import ALL_ORDERS, ENOUGH

Figures = Mapping[str, Any]
"""What is known of one stream with one encoder."""

NO_FIGURES = "There are no figures as yet."
AT_THE_END = "average at the end, %"
HEADER = (
    *("forgetting, points", "when learnt, %", "validation, %"),
    *("new parameters a domain", "trained parameters"),
)
SECONDS = "seconds"  # a column where runs were made that had the machine for themselves


def study_page(found: Mapping[str, Any]) -> str:
    """The tables of one stream: for each encoder the rows, then what the study asked, then runs that are not whole."""
    parts: list[Table | str] = []
    for name, figures in found["encoders"].items():
        parts.append(_weights(name, figures))
        for order in shown_orders(figures):
            one = figures["orders"][order]
            parts += [_heading(figures, order), rows_table(figures, one)]
            parts += [questions_table(one)] if one["differences"] else []
        for one in figures.get("so_far", {}).values():
            parts += [_heading_so_far(one), rows_table(figures, one, "average so far, %")]
    return to_page(parts) if parts else NO_FIGURES


def shown_orders(figures: Figures) -> Sequence[str]:
    """The mean over all orders, if no row is lost by it, and each order."""
    orders = figures["orders"]
    single = [order for order in orders if order != ALL_ORDERS]
    whole = ALL_ORDERS in orders and orders[ALL_ORDERS]["chosen"].keys() >= orders[single[0]]["chosen"].keys()
    return [ALL_ORDERS, *single] if whole else single


def rows_table(figures: Figures, one: Figures, average: str = AT_THE_END) -> Table:
    """A line for each row: means over seeds, and their standard deviation."""
    rows = one["rows"]
    timed = any(row["seconds_alone"] is not None for row in rows.values())
    lines = [_line(rows[name], label, timed) for name, label in chosen(figures, one).items()]
    header = ("row", average, *HEADER)
    return Table(None, (*header, SECONDS) if timed else header, lines)


def chosen(figures: Figures, one: Figures) -> dict[str, str]:
    """The rows that are shown, and what they are called there: of a row's variants the best on validation data.

    A row with fewer seeds than are enough to answer a question says how many it has.
    """
    about = figures["rows"]
    return {name: f"{_label(family, name, about)}{few(one['rows'][name])}" for family, name in one["chosen"].items()}


def few(row: Mapping[str, Any]) -> str:
    """What to write behind the name of a row that has too few seeds to answer a question."""
    number = len(row["seeds"])
    return "" if number >= ENOUGH else f" ({_seeds(number)})"


def _seeds(number: int) -> str:
    return f"{number} seed{'s' * (number != 1)}"


def _label(family: str, name: str, about: Mapping[str, Any]) -> str:
    if not any(one["variant_of"] == family for one in about.values()):
        return family
    options = about[name]["options"].items()
    return f"{family} ({', '.join(f'{option} {value:g}' for option, value in options) or 'default'})"


def _line(row: Mapping[str, Any], label: str, timed: bool) -> list[str]:
    test, seconds = row["test"], row["seconds_alone"]
    shown = [
        label,
        _percent(test.get("average")),
        _percent(test.get("forgetting")),
        _percent(test.get("when_learnt")),
        _percent(row["validation"].get("average"), spread=False),
        f"{row['added']:,.0f}",
        MISSING if row["trained"] is None else f"{row['trained']:,}",
    ]
    return [*shown, MISSING if seconds is None else f"{seconds:,.0f}"] if timed else shown


def _percent(cell: Mapping[str, Any] | None, spread: bool = True) -> str:
    if cell is None:
        return MISSING
    around = f" ± {100 * cell['spread']:.1f}" if spread and cell["spread"] is not None else ""
    return f"{round(100 * cell['mean'], 1) + 0.0:.1f}{around}".replace("-", "−")


def questions_table(one: Figures) -> Table:
    """What the study asked: differences seed by seed, with 95% intervals."""
    rows = []
    for question, found in one["differences"].items():
        end, lost = found["test"]["average"], found["test"].get("forgetting")
        asked = question.replace(" - ", " against ")
        rows.append([asked, _interval(end), p_value(end["p_holm"]), _interval(lost)])
    header = ("question", "average, points [95% interval]", "p (Holm)", "forgetting, points [95% interval]")
    return Table(None, header, rows)


def _interval(test: Mapping[str, Any] | None) -> str:
    if test is None:
        return MISSING
    mean = signed(100 * test["difference"])
    return mean if test["low"] is None else f"{mean} [{signed(100 * test['low'])}, {signed(100 * test['high'])}]"


def _weights(name: str, figures: Figures) -> str:
    rounded = ", rounded to float16" if figures["rounded_from"] else ""
    return f"**{name}** (SHA-256 of the weights: {figures['rounded_from'] or figures['weights']}{rounded})."


def _heading(figures: Figures, order: str) -> str:
    one = figures["orders"][order]
    number = sum(other != ALL_ORDERS for other in figures["orders"])
    orders = f"The mean of {number} orders" if order == ALL_ORDERS else f"Order {order}: {', '.join(one['domains'])}"
    return f"{orders}; {_seeds_of(one)}."


def _heading_so_far(one: Figures) -> str:
    """What an unfinished stream can say: averages over the domains learned by then, and no more."""
    learnt = ", ".join(one["domains"])
    return f"Unfinished, after the first {len(one['domains'])} domains ({learnt}); {_seeds_of(one)}."


def _seeds_of(one: Figures) -> str:
    enough = [len(row["seeds"]) for row in one["rows"].values() if not few(row)]
    if not enough:
        return "too few seeds for any claim"
    return _seeds(max(enough)) + (" where a row says nothing else" if len(enough) < len(one["rows"]) else "")


def slots_taken_away(found: Mapping[str, Any]) -> Table:
    """Rows with slots, or an adapter in their place, tested as they are and without them."""
    rows = []
    for encoder, figures in found["encoders"].items():
        for order in shown_orders(figures):
            for name, row in figures["orders"][order]["rows"].items():
                if silent := row["test"].get("without_slots"):
                    whole = row["test"]["average"]
                    brought = MISSING if few(row) else _interval(_paired(whole, silent))
                    rows.append([encoder, order, f"{name}{few(row)}", _percent(whole), _percent(silent), brought])
    header = ("encoder", "order", "row", AT_THE_END, "without, %", "difference, points [95% interval]")
    return Table(None, header, rows)


def _paired(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    return paired_over_seeds(one["values"], other["values"]).to_json()
