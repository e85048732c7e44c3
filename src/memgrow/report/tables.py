"""What a learner has been through, as tables for the terminal."""

from collections.abc import Mapping
from statistics import fmean

from rich import box
from rich.table import Table
from rich.text import Text

from memgrow.data import Example
from memgrow.history import History
from memgrow.learner import Learner
from memgrow.methods import METHODS
from memgrow.metrics import AccuracyMatrix

NAMES = {
    "average": "average accuracy at the end",
    "forgetting": "forgetting (best minus last)",
    "backward_transfer": "backward transfer",
    "forward_transfer": "forward transfer",
}


def percent(value: float | None, sign: bool = False) -> str:
    if value is None:
        return "·"
    return f"{100 * value:+.1f}" if sign else f"{100 * value:.1f}"


def matrix_table(matrix: AccuracyMatrix, title: str) -> Table:
    """Rows are stages, columns domains: learnt domains bright, those still to come dim."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("after learning", overflow="fold")
    for domain in matrix.domains:
        table.add_column(domain, justify="right", overflow="fold")
    learned_at = matrix.learned_at()
    for stage, row in enumerate(matrix.rows):
        cells = [
            Text(percent(matrix.score(stage, domain)), _style(stage, learned_at.get(domain)))
            for domain in matrix.domains
        ]
        table.add_row("+".join(row.learned), *cells)
    return table


def _style(stage: int, learned: int | None) -> str:
    return "dim" if learned is None or stage < learned else "bold" if stage == learned else ""


def summary_line(history: History) -> str:
    """Average, forgetting and transfer in one line, as far as they are known."""
    parts = [
        f"{NAMES[name]} {percent(value, name != 'average')}"
        for name, value in history.summary().items()
        if value is not None
    ]
    return "; ".join(parts)


def stages_table(history: History) -> Table:
    table = Table(title="stages", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in ("domain", "method", "grew", "parameters", "epochs", "valid.", "seconds"):
        table.add_column(name, overflow="fold", justify="left" if name in ("domain", "method", "grew") else "right")
    for stage in history.stages:
        grew = ", ".join(
            f"{count:,} {what}" for what, count in vars(stage.grew).items() if count and (what, count) != ("columns", 1)
        )
        table.add_row(
            "+".join(stage.learned),
            stage.method,
            grew or "nothing",
            f"{stage.parameters:,}",
            f"{stage.best_epoch}/{stage.epochs}",
            percent(stage.validation),
            f"{stage.seconds:.1f}",
        )
    return table


def scores_table(scores: Mapping[str, float], examples: Mapping[str, int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("domain", overflow="fold")
    table.add_column("examples", justify="right")
    table.add_column("accuracy", justify="right")
    for name, score in scores.items():
        table.add_row(name, f"{examples[name]:,}", percent(score))
    return table


def methods_table() -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("method", "grows", "sees", "what it does"):
        table.add_column(name, overflow="fold", no_wrap=name == "method")
    for method in METHODS.values():
        sees = "all data" if method.together else "new data"
        table.add_row(method.name, ", ".join(method.grows) or "nothing", sees, method.about)
    return table


def comparison_table(summary: Mapping[str, Mapping[str, Mapping[str, float]]], seeds: int) -> Table:
    """One line for each method: mean and, with several seeds, spread."""
    table = Table(
        title=f"at the end, {seeds} seed{'s' if seeds > 1 else ''}", box=box.SIMPLE_HEAD, title_justify="left"
    )
    table.title_style = "bold"
    for name in ("method", "average", "forgot", "parameters", "seconds"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for method, values in summary.items():
        cells = [
            percent(values[name]["mean"]) + (f" ± {percent(values[name]['spread'])}" if seeds > 1 else "")
            for name in ("average", "forgetting")
        ]
        table.add_row(method, *cells, f"{values['parameters']['mean']:,.0f}", f"{values['seconds']['mean']:.1f}")
    return table


def reading_table(learner: Learner, example: Example) -> Table:
    """How the attention that a text pays divides among the domains' slots, bank by bank and on the mean."""
    table = Table(title="whose slots this text reads, %", box=box.SIMPLE_HEAD, title_justify="left")
    table.title_style = "bold"
    banks = learner.reading(example)
    domains = list(dict.fromkeys(domain for shares in banks for domain in shares))
    for name in ("bank", *domains):
        table.add_column(name, justify="left" if name == "bank" else "right", overflow="fold")
    rows = []
    for number, shares in enumerate(banks, 1):
        read = {domain: float(shares[domain].sum()) for domain in domains}  # nothing is read behind a text's end
        rows.append([value / (sum(read.values()) or 1) for value in read.values()])
        table.add_row(str(number), *map(percent, rows[-1]))
    table.add_row("mean", *(percent(fmean(column)) for column in zip(*rows, strict=True)), style="bold")
    return table
