"""Tables for the terminal and the report: one renderer, number formats, and the tables of scores and labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Literal

import rich.table
from rich import box
from rich.console import Group
from rich.text import Text

from memgrow.errors import counted, listed
from memgrow.evaluation.history import AccuracyMatrix, Grew, History, Stage, perplexity_of

if TYPE_CHECKING:
    from memgrow.evaluation.metrics import Confusion
    from memgrow.evaluation.replies import ReplyFigures

UNKNOWN, MISSING = "·", "-"  # not tested yet; no such figure
Cell = str | Text  # never markup: names are the user's


# The renderer


@dataclass(frozen=True)
class Column:
    """A column's header and how its cells are set."""

    name: str = ""
    right: bool = False
    wrap: bool = True


def numbers(*names: str) -> list[Column]:
    """Right-aligned columns that are never wrapped."""
    return [Column(name, right=True, wrap=False) for name in names]


@dataclass(frozen=True)
class Table:
    """Rows below a header; rich prints it, and the report's template renders it as HTML."""

    title: Cell | None
    header: Sequence[str | Column]
    rows: Sequence[Sequence[Cell]]
    lines_above: Sequence[int] = ()  # indices of rows with a rule above

    @property
    def columns(self) -> list[Column]:
        return [Column(column) if isinstance(column, str) else column for column in self.header]

    def __rich__(self) -> Group:
        title = Text(self.title, "bold") if isinstance(self.title, str) else self.title
        table = rich.table.Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for column in self.columns:
            justify: Literal["left", "right"] = "right" if column.right else "left"
            table.add_column(Text(column.name), justify=justify, no_wrap=not column.wrap, overflow="fold")
        for number, row in enumerate(self.rows):
            if number in self.lines_above:
                table.add_section()
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        return Group(*([] if title is None else [title]), table)


# Number formats


def shortened(name: str, width: int) -> str:
    """A name cut to a number of letters, with an ellipsis."""
    return name if len(name) <= width else f"{name[: width - 1].rstrip()}…"


def percent(value: float | None, sign: bool = False, digits: int = 1) -> str:
    """A share of 1 out of 100."""
    return UNKNOWN if value is None else f"{100 * value:{'+' if sign else ''}.{digits}f}"


def perplexity_text(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}" if value < 1e6 else f"{value:.1e}"


def in_bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# Scores: accuracy and BLEU-2 are shown as they are, 1 / perplexity as the perplexity


@dataclass(frozen=True)
class Measure:
    """How scores, of which higher is better, are displayed."""

    name: str
    axis: str
    digits: int = 1
    unit: str = ""

    @property
    def is_perplexity(self) -> bool:
        return self.name == "perplexity"

    @property
    def lost_name(self) -> str:
        return "forgetting: perplexity, times its best" if self.is_perplexity else "forgetting, points"

    def text(self, score: float | None, unit: bool = True) -> str:
        if score is None:
            return UNKNOWN
        if self.is_perplexity:
            return perplexity_text(perplexity_of(score))
        return percent(score, digits=self.digits) + (self.unit if unit else "")

    def named(self, score: float) -> str:
        return f"perplexity {self.text(score)}" if self.is_perplexity else self.text(score)

    def mean(self, values: Iterable[float | None]) -> float | None:
        """The mean of the values that are known; geometric for perplexities."""
        known = [one for one in values if one is not None]
        if not known or not self.is_perplexity:
            return fmean(known) if known else None
        return geometric_mean(known) if min(known) > 0 else 0.0

    def average(self, matrix: AccuracyMatrix) -> float | None:
        """The mean score at the end over all learned domains."""
        return self.mean(matrix.score(-1, name) for name in matrix.learned_at())

    def lost(self, best: float, last: float) -> float | None:
        """What was lost between two scores: points, or how many times a perplexity is its best."""
        if not self.is_perplexity:
            return best - last
        return None if best <= 0 else best / last if last > 0 else inf

    def lost_of(self, matrix: AccuracyMatrix, domain: str) -> float | None:
        """What a domain lost against its best score before the last stage."""
        best = AccuracyMatrix(matrix.rows[:-1]).scores_since(matrix.learned_at()[domain], domain)
        now = matrix.score(-1, domain)
        return None if not best or now is None else self.lost(max(best), now)

    def forgetting(self, matrix: AccuracyMatrix) -> float | None:
        """The mean of what earlier domains lost."""
        return self.mean(self.lost_of(matrix, name) for name in matrix.learned_at())

    def lost_text(self, lost: float | None) -> str:
        if lost is None:
            return UNKNOWN
        return f"× {lost:.2f}" if self.is_perplexity else percent(lost, sign=True, digits=self.digits)


MEASURES = {
    "accuracy": Measure("accuracy", "test accuracy, %", unit="%"),
    "bleu2": Measure("BLEU-2", "BLEU-2 of the test replies", digits=2),
    "perplexity": Measure("perplexity", "test perplexity (lower is better)", digits=2),
}


def measure_of_task(task: str | None) -> Measure:
    """The measure of a model's history."""
    return MEASURES["perplexity" if task == "reply" else "accuracy"]


# The accuracy matrix

MAX_COLUMNS = 10  # domains in a terminal; of more domains there is one row each
MAX_ROWS = 30  # domains shown then: those that lost most


def domain_scores(matrix: AccuracyMatrix, domain: str) -> tuple[float | None, float | None, float | None]:
    """The score of a domain when it was learned, its best since then, and its last."""
    stage = matrix.learned_at()[domain]
    return matrix.score(stage, domain), max(matrix.scores_since(stage, domain), default=None), matrix.score(-1, domain)


def matrix_table(matrix: AccuracyMatrix, measure: Measure, name: str = "") -> Table:
    """Stages down, domains across; of many domains those that lost most, one row each."""
    learned_at, title = matrix.learned_at(), f"{name}: {measure.axis}" if name else measure.axis
    if max(len(matrix.rows), len(matrix.domains)) > MAX_COLUMNS:
        most = sorted(learned_at, key=lambda domain: -(measure.lost_of(matrix, domain) or 0.0))[:MAX_ROWS]
        title += f": the {len(most)} of {len(learned_at):,} domains that lost most"
        return replace(losses_table(matrix, measure, [one for one in learned_at if one in most]), title=title)
    rows: list[list[Cell]] = []
    for stage, row in enumerate(matrix.rows):
        rows.append(["+".join(row.learned)])
        for domain in matrix.domains:
            learned = learned_at.get(domain, len(matrix.rows))
            style = "dim" if stage < learned else "bold" if stage == learned else ""
            rows[-1].append(Text(measure.text(row.scores.get(domain), unit=False), style))
    return Table(title, ["after learning", *(Column(domain, right=True) for domain in matrix.domains)], rows)


def losses_table(
    matrix: AccuracyMatrix, measure: Measure, domains: Iterable[str], tests: Mapping[str, int] | None = None
) -> Table:
    """The score of domains when they were learned, the best since, the last, and what was lost; `tests`: test rows."""
    rows = []
    for name in domains:
        scores, lost = map(measure.text, domain_scores(matrix, name)), measure.lost_text(measure.lost_of(matrix, name))
        known = [] if tests is None else [f"{tests[name]:,}" if name in tests else MISSING]
        rows.append((name, *scores, lost, *known))
    names = ("when learned", "best", "now", "lost", *([] if tests is None else ["test rows"]))
    return Table(None, ["domain", *numbers(*names)], rows)


# Scores and labels

MAX_LABELS = 8  # of a confusion matrix in a terminal
MISTAKES = 10  # shown instead for more labels


def replies_table(figures: Mapping[str, "ReplyFigures"]) -> Table:
    rows = [
        (
            domain,
            f"{one.examples:,}",
            perplexity_text(one.perplexity),
            f"{one.bleu2:.2f}",
            *(f"{share:.3f}" for share in (one.distinct1, one.distinct2)),
            f"{one.length:.1f}",
        )
        for domain, one in figures.items()
    ]
    return Table(None, ["domain", *numbers("examples", "perplexity", "BLEU-2", "dist-1", "dist-2", "length")], rows)


def labels_table(domain: str, confusion: "Confusion") -> Table:
    """Precision, recall and F1 of each label, and their means."""
    metrics = confusion.by_label()
    rows = [
        (label, *map(percent, (one.precision, one.recall, one.f1)), f"{one.examples:,}")
        for label, one in metrics.items()
    ]
    means = [fmean(getattr(one, name) for one in metrics.values()) for name in ("precision", "recall")]
    rows.append(("mean of labels", *map(percent, (*means, confusion.macro_f1)), f"{confusion.examples:,}"))
    title = f"{domain}: each label (majority class {confusion.most_frequent}: {percent(confusion.baseline)}%)"
    columns: list[str | Column] = ["label", *numbers("precision", "recall", "F1", "examples")]
    return Table(title, columns, rows, lines_above=[len(rows) - 1])


def confusion_table(domain: str, confusion: "Confusion") -> Table:
    """Labels (rows) against predictions (columns); of many labels the most frequent mistakes."""
    labels, counts = confusion.labels, confusion.counts
    if len(labels) > MAX_LABELS:
        pairs = [(count, a, b) for a, row in enumerate(counts) for b, count in enumerate(row) if count and a != b]
        worst = sorted(pairs, key=lambda pair: -pair[0])[:MISTAKES]
        columns: list[str | Column] = ["label", "predicted", *numbers("examples")]
        rows = [(labels[a], labels[b], f"{count:,}") for count, a, b in worst]
        return Table(f"{domain}: the most frequent mistakes (--json has all)", columns, rows)
    cells = [(label, *(f"{count:,}" for count in row)) for label, row in zip(labels, counts, strict=True)]
    title = f"{domain}: labels (rows) and predictions (columns)"
    header: list[str | Column] = ["", *(Column(label, right=True) for label in labels)]
    return Table(title, header, cells)


# What a history says

GROWN = {"slots": "slot", "hidden": "hidden unit", "words": "word", "labels": "label"}


def growth(grew: Grew) -> str:
    """What a model grew by in a stage; a new model's column goes without saying."""
    added = [counted(count, GROWN[what]) for what, count in vars(grew).items() if count and what in GROWN]
    return ", ".join(added) or ("a head" if grew.columns else "nothing")


def rows_kept(stage: Stage) -> int | None:
    """The number of rows that a method kept of a stage's data, if it keeps rows."""
    count = stage.note.get("rows_kept")
    return count if isinstance(count, int) else None


def stage_line(stage: Stage, task: str | None = None) -> Text:
    """One line about a stage that has ended."""
    measure, note = measure_of_task(task), stage.note
    grew = growth(replace(stage.grew, columns=0))
    parts = [f"validation {measure.named(stage.validation)}", *([f"grew {grew}"] if grew != "nothing" else [])]
    if "keep_chosen" in note:
        score = measure.named(note["validation_after_averaging"])
        parts.append(f"averaged {percent(note['keep'], digits=0)}% back to the old weights: validation {score}")
    if (kept := rows_kept(stage)) is not None:
        parts.append(f"{counted(kept, 'row')} kept")
    epochs = counted(stage.epochs, "epoch") if stage.epochs else "solved in closed form"
    took = f"{counted(stage.examples, 'example')}, {epochs}, {stage.seconds:.0f} s"
    return Text.assemble(("+".join(stage.learned), "bold"), f": {'; '.join([took, *parts])}")


def summary_line(history: History, task: str | None = None) -> str:
    """Average and forgetting in one line, and which domains' forgetting is not known."""
    measure, matrix = measure_of_task(task), history.matrix
    parts = []
    if (average := measure.average(matrix)) is not None:
        mean = f"perplexity at the end {measure.text(average)} (geometric mean)"
        parts.append(mean if measure.is_perplexity else f"average accuracy at the end {percent(average)}")
    if (lost := measure.forgetting(matrix)) is not None:
        rise = f"earlier domains: {lost:.2f} times their lowest perplexity"
        parts.append(rise if measure.is_perplexity else f"forgetting (best minus last) {percent(lost, sign=True)}")
    untested = [name for name in history.domains if matrix.score(-1, name) is None]
    if untested:
        parts[:1] = [f"forgetting of {listed(untested)} is not measured: no test examples (--watch FILE gives some)"]
    return "; ".join(parts)
