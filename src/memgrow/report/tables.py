"""What a learner has been through, as lines and tables for the terminal. Names are a user's, and never markup."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from memgrow.history import History, Stage
from memgrow.methods import LETTERS, METHODS
from memgrow.report.growth import counted, growth
from memgrow.report.percent import percent

if TYPE_CHECKING:
    from memgrow.replying import ReplyFigures

HEADS = {"bleu2": "BLEU-2", "distinct1": "dist-1", "distinct2": "dist-2", "w2v_similarity": "W2V-Sim"}
NAMES = {
    "average": "average accuracy at the end",
    "forgetting": "forgetting (best minus last)",
    "backward_transfer": "backward transfer",
    "forward_transfer": "forward transfer",
}


def summary_line(history: History) -> str:
    """Average, forgetting and transfer in one line, as far as they are known."""
    parts = [
        f"{NAMES[name]} {percent(value, name != 'average')}"
        for name, value in history.summary().items()
        if value is not None
    ]
    untested = [name for name in history.domains if history.matrix.score(-1, name) is None]
    if parts and untested:
        parts.append(f"not tested at the end: {', '.join(untested)} (--watch FILE tests earlier domains)")
    return "; ".join(parts)


def stage_line(stage: Stage) -> Text:
    return Text.assemble(
        ("+".join(stage.learned), "bold"),
        f": {counted(stage.examples, 'example')}, {counted(stage.epochs, 'epoch')}, {stage.seconds:.0f} s; "
        f"validation {percent(stage.validation)}%; grew {growth(stage.grew)}",
    )


def stages_table(history: History) -> Table:
    table = _table("stages")
    for name in ("domain", "method", "grew", "parameters", "epochs", "valid.", "seconds"):
        table.add_column(name, overflow="fold", justify="left" if name in ("domain", "method", "grew") else "right")
    for stage in history.stages:
        table.add_row(
            Text("+".join(stage.learned)),
            stage.method,
            growth(stage.grew),
            f"{stage.parameters:,}",
            f"{stage.best_epoch}/{stage.epochs}",
            percent(stage.validation),
            f"{stage.seconds:.1f}",
        )
    for column in table.columns[3:]:
        column.no_wrap = True
    return table


def scores_table(scores: Mapping[str, float], examples: Mapping[str, int]) -> Table:
    table = _table()
    table.add_column("domain", overflow="fold")
    table.add_column("examples", justify="right", no_wrap=True)
    table.add_column("accuracy, %", justify="right", no_wrap=True)
    for name, score in scores.items():
        table.add_row(Text(name), f"{examples[name]:,}", percent(score))
    return table


def replies_table(figures: Mapping[str, "ReplyFigures"]) -> Table:
    table = _table()
    table.add_column("domain", overflow="fold")
    kinds = {"examples": ",.0f", "perplexity": ".1f", "bleu2": ".2f", "distinct1": ".3f", "distinct2": ".3f"}
    kinds |= {"length": ".1f", "w2v_similarity": ".3f"}
    found = {name: one.to_json() for name, one in figures.items()}
    shown = [kind for kind in kinds if any(kind in one for one in found.values())]
    for kind in shown:
        table.add_column(HEADS.get(kind, kind), justify="right", no_wrap=True)
    for name, one in found.items():
        table.add_row(Text(name), *(format(one[kind], kinds[kind]) for kind in shown))
    return table


def methods_table() -> Table:
    table = _table()
    for name in ("method", "grows", "sees", "what it does"):
        table.add_column(name, overflow="fold", no_wrap=name in ("method", "sees"))
    for method in METHODS.values():
        sees = "all data" if method.together else "new data"
        table.add_row(method.name, ", ".join(method.grows) or "nothing", sees, method.about)
    return table


def letters_table() -> Table:
    table = _table("letters behind a name, as in F+V+A")
    table.add_column("letter")
    table.add_column("what it does", overflow="fold")
    for name, letter in LETTERS.items():
        table.add_row(name, letter.about)
    return table


def comparison_table(summary: Mapping[str, Mapping[str, Mapping[str, float]]], seeds: int) -> Table:
    """One line for each method: mean and, with several seeds, spread."""
    table = _table(f"at the end, {counted(seeds, 'seed')}")
    for name in ("method", "average", "forgot", "parameters", "seconds"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for method, values in summary.items():
        cells = [
            percent(values[name]["mean"]) + (f" ± {percent(values[name]['spread'])}" if seeds > 1 else "")
            for name in ("average", "forgetting")
        ]
        table.add_row(method, *cells, f"{values['parameters']['mean']:,.0f}", f"{values['seconds']['mean']:.1f}")
    return table


def _table(title: str | None = None) -> Table:
    return Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
