"""Methods side by side in the terminal: one line for each, and in words which one to take."""

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from memgrow.experiments.comparison import BASELINE, RETRAINING, Comparison
from memgrow.methods import find_method
from memgrow.metrics.paired import Paired
from memgrow.report.growth import counted
from memgrow.report.percent import UNKNOWN, percent

CLEAR = "*"
COLUMNS = ("method", "average", f"against {BASELINE}", "forgot", "parameters", "time")


def compared_table(comparison: Comparison, seeds: int) -> Table:
    """Mean and spread over the seeds. Methods that need all data at once stand below a line."""
    title = f"at the end, % of the test examples, {counted(seeds, 'seed')}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for number, method in enumerate(comparison.order):
        values, together = comparison.summary[method], find_method(method).together
        if together and number and not find_method(comparison.order[number - 1]).together:
            table.add_section()
        table.add_row(
            method,
            _cell(values["average"]),
            difference(comparison.against(method)),
            _cell(values["forgetting"]),
            f"{values['parameters']['mean']:,.0f}",
            f"{values['seconds']['mean']:,.0f} s",
        )
    return table


def difference(paired: Paired | None) -> str:
    """The mean difference and its spread; marked where its 95% interval leaves zero out."""
    if paired is None:
        return UNKNOWN
    return percent(paired.difference, sign=True) + _spread(paired.std) + (CLEAR if _clear(paired) else "")


def domains_table(comparison: Comparison) -> Table:
    """What each method gets right of each domain when all have been learnt."""
    table = Table(title="each domain at the end, %", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("domain", overflow="fold")
    ends = {method: comparison.mean_matrix(method) for method in comparison.order}
    for method in ends:
        table.add_column(method, justify="right", overflow="fold")
    for domain in next(iter(ends.values())).domains:
        table.add_row(Text(domain), *(percent(matrix.score(-1, domain)) for matrix in ends.values()))
    return table


def verdict(comparison: Comparison) -> str:
    """Which method ends best without old data, in a sentence."""
    best, *others = [name for name in comparison.order if not find_method(name).together] or [""]
    level = [
        name for name in others if (paired := comparison.against(best, name)) and paired.std and not _clear(paired)
    ]
    beside = f" ({' and '.join(level)} not clearly below)" if level else ""
    against = {
        name: f"{difference(paired)} points against {why}"
        for name, why in ((BASELINE, "fine-tuning"), (RETRAINING, "retraining on everything"))
        if (paired := comparison.against(best, name)) is not None
    }
    return f"Without old data, {best} ends best{beside}: {' and '.join(against.values())}." if against else ""


def legend(comparison: Comparison, seeds: int) -> str:
    """What the signs in the table mean, as far as there are any."""
    parts = ["± is the standard deviation over seeds; differences are taken seed by seed"] if seeds > 1 else []
    if any(CLEAR in difference(comparison.against(name)) for name in comparison.order):
        parts.append(f"{CLEAR}: the 95% interval of the difference leaves zero out")
    return "; ".join(parts)


def _clear(paired: Paired) -> bool:
    return paired.low is not None and paired.high is not None and not paired.low <= 0 <= paired.high


def _cell(value: dict[str, Any]) -> str:
    return percent(value["mean"]) + _spread(value["spread"])


def _spread(value: float | None) -> str:
    return "" if value is None else f" ± {percent(value)}"
