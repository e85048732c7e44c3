"""Methods side by side in the terminal: one line for each, and in words which one to take."""

from rich import box
from rich.table import Table
from rich.text import Text

from memgrow.errors import counted
from memgrow.experiments.comparison import BASELINE, RETRAINING, Comparison, OverSeeds
from memgrow.methods import find_method
from memgrow.metrics.significance import Paired
from memgrow.report.table import UNKNOWN, percent, perplexity_text

CLEAR, PERPLEXITY = "*", "perpl."
COLUMNS = ("method", "average", f"against {BASELINE}", "forgot", PERPLEXITY, "parameters", "time")
FINE = 0.1  # averages below this are shown with a further digit, where such are common


def compared_table(comparison: Comparison, seeds: int) -> Table:
    """Mean and spread over the seeds. Methods that need all data at once stand below a line."""
    title = f"at the end, {comparison.kind.share}, {counted(seeds, 'seed')}"
    shown, replies = digits(comparison), comparison.kind.is_dialogue
    padding = (0, 0 if replies else 1)  # a column more is to find room in eighty
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=padding, title_justify="left", title_style="bold")
    for name in COLUMNS:
        if name != PERPLEXITY or replies:
            table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for number, method in enumerate(comparison.order):
        values, together = comparison.summary[method], find_method(method).together
        if together and number and not find_method(comparison.order[number - 1]).together:
            table.add_section()
        table.add_row(
            method,
            _cell(values["average"], shown),
            difference(comparison.against(method), shown),
            _cell(values["forgetting"], shown),
            *([perplexity_text(values["perplexity"].mean or 0.0)] if replies else []),
            f"{values['parameters'].mean:,.0f}",
            f"{values['seconds'].mean:,.0f} s",
        )
    return table


def digits(comparison: Comparison) -> int:
    """How many digits after the point: BLEU-2 of real replies is about one or two of a hundred."""
    averages = [comparison.summary[method]["average"].mean or 0.0 for method in comparison.order]
    return 2 if comparison.kind.is_dialogue and max(averages, default=0.0) < FINE else 1


def difference(paired: Paired | None, shown: int = 1) -> str:
    """The mean difference and its spread; marked where its 95% interval leaves zero out."""
    if paired is None:
        return UNKNOWN
    mean = percent(paired.difference, sign=True, digits=shown)
    return mean + _spread(paired.std, shown) + (CLEAR if _clear(paired) else "")


def demo_table(comparison: Comparison, seeds: int) -> Table:
    """One line for each method, in the order in which they were asked for: mean and, with several seeds, spread."""
    title = f"at the end, {counted(seeds, 'seed')}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in ("method", "average", "forgot", "parameters", "seconds"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for method, values in comparison.summary.items():
        cells = [
            percent(values[name].mean or 0.0) + (f" ± {percent(values[name].spread or 0.0)}" if seeds > 1 else "")
            for name in ("average", "forgetting")
        ]
        table.add_row(method, *cells, f"{values['parameters'].mean:,.0f}", f"{values['seconds'].mean:.1f}")
    return table


def domains_table(comparison: Comparison) -> Table:
    """How each method does on each domain when all have been learnt."""
    title = f"each domain at the end, {comparison.kind.unit}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("domain", overflow="fold")
    ends = {method: comparison.mean_matrix(method) for method in comparison.order}
    for method in ends:
        table.add_column(method, justify="right", overflow="fold")
    for domain in next(iter(ends.values())).domains:
        scores = (matrix.score(-1, domain) for matrix in ends.values())
        table.add_row(Text(domain), *(percent(score, digits=digits(comparison)) for score in scores))
    return table


def verdict(comparison: Comparison) -> str:
    """Which method ends best without old data, in a sentence."""
    best, *others = [name for name in comparison.order if not find_method(name).together] or [""]
    level = [
        name for name in others if (paired := comparison.against(best, name)) and paired.std and not _clear(paired)
    ]
    beside = f" ({' and '.join(level)} not clearly below)" if level else ""
    against = {
        name: f"{difference(paired, digits(comparison))} points against {why}"
        for name, why in ((BASELINE, "fine-tuning"), (RETRAINING, "retraining on everything"))
        if (paired := comparison.against(best, name)) is not None
    }
    return f"Without old data, {best} ends best{beside}: {' and '.join(against.values())}." if against else ""


def legend(comparison: Comparison, seeds: int) -> str:
    """What the signs in the table mean, as far as there are any."""
    parts = ["± is the standard deviation over seeds; differences are taken seed by seed"] if seeds > 1 else []
    if any(CLEAR in difference(comparison.against(name)) for name in comparison.order):
        parts.append(f"{CLEAR}: the 95% interval of the difference leaves zero out")
    if comparison.kind.is_dialogue:
        parts.append(
            f"{PERPLEXITY}: perplexity of the replies given, the geometric mean over domains; it takes all unknown "
            "words as one, so it does not compare methods with and without new words"
        )
    return "; ".join(parts)


def _clear(paired: Paired) -> bool:
    return paired.low is not None and paired.high is not None and not paired.low <= 0 <= paired.high


def _cell(value: OverSeeds, shown: int) -> str:
    return percent(value.mean, digits=shown) + _spread(value.spread, shown)


def _spread(value: float | None, shown: int) -> str:
    return "" if value is None else f" ± {percent(value, digits=shown)}"
