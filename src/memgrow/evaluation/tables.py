"""Tables for the terminal and the report: one renderer, number formats, and the tables of scores and labels."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import rich.table
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

if TYPE_CHECKING:
    from memgrow.evaluation.calibration import Reliability
    from memgrow.evaluation.history import AccuracyMatrix
    from memgrow.evaluation.metrics import Confusion, SideBySide
    from memgrow.evaluation.replies import ReplyFigures

UNKNOWN, MISSING = "·", "-"  # not tested yet; no such figure
Cell = str | Text  # never markup: names are the user's

LAYOUTS: dict[str, dict[str, Any]] = {
    "roomy": {},
    "narrow": {"padding": 0},
    "open": {"padding": (0, 1, 0, 0), "pad_edge": False, "show_edge": False},
}


# The renderer


@dataclass(frozen=True)
class Column:
    """A column's header and how its cells are set."""

    name: str = ""
    right: bool = False
    wrap: Literal["words", "letters", "never"] = "words"
    width: int | None = None  # at most


def numbers(*names: str) -> list[Column]:
    """Right-aligned columns that are never wrapped."""
    return [Column(name, right=True, wrap="never") for name in names]


@dataclass(frozen=True)
class Table:
    """Rows below a header; rich prints it, and the report's template renders it as HTML."""

    title: Cell | None
    header: Sequence[str | Column]
    rows: Sequence[Sequence[Cell]]
    layout: Literal["roomy", "narrow", "open"] = "roomy"
    lines_above: Sequence[int] = ()  # indices of rows with a rule above
    min_width: int | None = None

    @property
    def columns(self) -> list[Column]:
        return [Column(column) if isinstance(column, str) else column for column in self.header]

    def __rich__(self) -> rich.table.Table:
        table = rich.table.Table(
            title=Text(self.title, "bold") if isinstance(self.title, str) else self.title,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            min_width=self.min_width,
            **LAYOUTS[self.layout],
        )
        for column in self.columns:
            table.add_column(
                Text(column.name),
                justify="right" if column.right else "left",
                no_wrap=column.wrap == "never",
                overflow="fold" if column.wrap == "letters" else "ellipsis",
                max_width=column.width,
            )
        for number, row in enumerate(self.rows):
            if number in self.lines_above:
                table.add_section()
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        return table


# Number formats


def shortened(name: str, width: int) -> str:
    """A name cut to a number of terminal cells, with an ellipsis."""
    return name if cell_len(name) <= width else f"{set_cell_size(name, width - 1).rstrip()}…"


def percent(value: float | None, sign: bool = False, digits: int = 1) -> str:
    """A share of 1 out of 100."""
    return UNKNOWN if value is None else f"{100 * value:{'+' if sign else ''}.{digits}f}"


def signed(value: float | None, digits: int = 1) -> str:
    """A difference, with a proper minus sign."""
    return MISSING if value is None else f"{value:+.{digits}f}".replace("-", "−")


def p_value(p: float | None) -> str:
    if p is None:
        return MISSING
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def perplexity_text(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}" if value < 1e6 else f"{value:.1e}"


def score_cell(score: float | None, replies: bool) -> str:
    """A share, or for replies, whose score is 1 / perplexity, the perplexity."""
    if score is None or not replies:
        return percent(score)
    return perplexity_text(1 / score if score > 0 else inf)


def validation_text(score: float, replies: bool) -> str:
    return f"perplexity {score_cell(score, True)}" if replies else f"{percent(score)}%"


def path_text(names: Iterable[str]) -> str:
    """Domains in their order, for a title."""
    short = [shortened(name, 20) for name in names]
    if len(short) > 10:
        return f"{' → '.join(short[:3])} → … → {short[-1]} ({len(short):,} domains)"
    return " → ".join(short)


def in_bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# The accuracy matrix

STAGE_WIDTH, DOMAIN_WIDTH, GAP = 24, 12, 3
MAX_READABLE = 25  # stages or domains; beyond it there is one row per domain
MAX_ROWS, NEWEST = 30, 10  # domains shown then, and how many of them are the newest


def is_readable(matrix: "AccuracyMatrix") -> bool:
    """Whether the whole matrix can be shown."""
    return max(len(matrix.rows), len(matrix.domains)) <= MAX_READABLE


def domain_scores(matrix: "AccuracyMatrix", domain: str) -> tuple[float | None, float | None, float | None]:
    """The score of a domain when it was learned, its best since then, and its last."""
    stage = matrix.learned_at()[domain]
    return matrix.score(stage, domain), max(matrix.scores_since(stage, domain), default=None), matrix.score(-1, domain)


@dataclass(frozen=True)
class MatrixTable:
    """Stages down, domains across, in blocks as wide as the terminal; of many domains one row each."""

    matrix: "AccuracyMatrix"
    title: str
    digits: int = 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.title, "bold")
        if is_readable(self.matrix):
            for domains in self._blocks(options.max_width):
                yield self._block(domains)
        else:
            yield self._by_domain()

    def _blocks(self, width: int) -> list[list[str]]:
        names = ["after learning", *("+".join(row.learned) for row in self.matrix.rows)]
        room = width - min(max(map(len, names)), STAGE_WIDTH) - GAP
        blocks: list[list[str]] = [[]]
        left = room
        for domain in self.matrix.domains:
            wide = min(max(len(domain), len("100.0")), DOMAIN_WIDTH) + GAP
            if wide > left and blocks[-1]:
                blocks.append([])
                left = room
            blocks[-1].append(domain)
            left -= wide
        return blocks

    def _block(self, domains: Sequence[str]) -> Table:
        learned_at = self.matrix.learned_at()

        def cell(stage: int, domain: str) -> Text:
            learned = learned_at.get(domain, len(self.matrix.rows))
            style = "dim" if stage < learned else "bold" if stage == learned else ""
            return Text(percent(self.matrix.score(stage, domain), digits=self.digits), style)

        rows: list[list[Cell]] = [
            ["+".join(row.learned), *(cell(stage, domain) for domain in domains)]
            for stage, row in enumerate(self.matrix.rows)
        ]
        columns = [Column(domain, right=True, wrap="letters", width=DOMAIN_WIDTH) for domain in domains]
        return Table(None, [Column("after learning", wrap="letters", width=STAGE_WIDTH), *columns], rows)

    def _by_domain(self) -> Table:
        """The newest domains and those that lost most; the rest as a mean."""
        found = {name: domain_scores(self.matrix, name) for name in self.matrix.learned_at()}
        scores = {
            name: (*one, None if one[1] is None or one[2] is None else one[1] - one[2]) for name, one in found.items()
        }
        newest = set(list(scores)[-NEWEST:])
        shown = sorted(scores, key=lambda name: (name not in newest, -(scores[name][3] or 0.0)))[:MAX_ROWS]
        rows = [(name, *(percent(one, digits=self.digits) for one in scores[name])) for name in scores if name in shown]
        others = [scores[name] for name in scores if name not in shown]
        if others:
            columns = [[one for one in column if one is not None] for column in zip(*others, strict=True)]
            means = (percent(fmean(known) if known else None, digits=self.digits) for known in columns)
            rows.append((f"{len(others):,} others, mean", *means))
        header = [Column("domain", wrap="letters", width=2 * STAGE_WIDTH), *numbers("learned", "best", "now", "lost")]
        return Table(None, header, rows, lines_above=[len(rows) - 1] if others else [])


# Scores and labels

MAX_LABELS = 8  # of a confusion matrix in a terminal
MISTAKES = 10  # shown instead for more labels
REPLY_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {  # by metric: header and format
    "examples": ("examples", "{:,.0f}".format),
    "perplexity": ("perplexity", perplexity_text),
    "bleu2": ("BLEU-2", "{:.2f}".format),
    "distinct1": ("dist-1", "{:.3f}".format),
    "distinct2": ("dist-2", "{:.3f}".format),
    "length": ("length", "{:.1f}".format),
    "w2v_similarity": ("W2V-Sim", "{:.3f}".format),
}


def scores_table(
    scores: Mapping[str, "Reliability"],
    uncalibrated: Mapping[str, "Reliability"] | None = None,
    confusions: Mapping[str, "Confusion"] | None = None,
) -> Table:
    """Accuracy and calibration error of each domain; with `uncalibrated`, more of calibration instead of labels."""
    labels = confusions if not uncalibrated else None

    def row(name: str, one: "Reliability") -> Iterator[str]:
        yield from (name, f"{one.examples:,}", percent(one.accuracy))
        if labels:
            yield from (percent(labels[name].baseline), percent(labels[name].macro_f1))
        yield percent(one.ece)
        if uncalibrated:
            yield from (percent(uncalibrated[name].ece), percent(one.confidence), f"{one.nll:.3f}")

    names = ["examples", "accuracy, %", *(["baseline, %", "macro F1, %"] if labels else []), "ECE, %"]
    names += ["at temperature 1", "confidence, %", "NLL"] if uncalibrated else []
    return Table(
        None, [Column("domain", wrap="letters"), *numbers(*names)], [tuple(row(*one)) for one in scores.items()]
    )


def replies_table(figures: Mapping[str, "ReplyFigures"]) -> Table:
    found = {name: one.known() for name, one in figures.items()}
    shown = {name: kind for name, kind in REPLY_COLUMNS.items() if any(name in one for one in found.values())}
    rows = [(domain, *(written(one[name]) for name, (_, written) in shown.items())) for domain, one in found.items()]
    return Table(None, [Column("domain", wrap="letters"), *numbers(*(head for head, _ in shown.values()))], rows)


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
    columns = [Column("label", wrap="letters"), *numbers("precision", "recall", "F1", "examples")]
    return Table(title, columns, rows, lines_above=[len(rows) - 1])


def confusion_table(domain: str, confusion: "Confusion") -> Table:
    """Labels (rows) against predictions (columns); of many labels the most frequent mistakes."""
    labels, counts = confusion.labels, confusion.counts
    if len(labels) > MAX_LABELS:
        pairs = [(count, a, b) for a, row in enumerate(counts) for b, count in enumerate(row) if count and a != b]
        worst = sorted(pairs, key=lambda pair: -pair[0])[:MISTAKES]
        columns = [Column("label", wrap="letters"), Column("predicted", wrap="letters"), *numbers("examples")]
        rows = [(labels[a], labels[b], f"{count:,}") for count, a, b in worst]
        return Table(f"{domain}: the most frequent mistakes (--json has all)", columns, rows)
    cells = [(label, *(f"{count:,}" for count in row)) for label, row in zip(labels, counts, strict=True)]
    title = f"{domain}: labels (rows) and predictions (columns)"
    header = [Column("", wrap="letters"), *(Column(label, right=True, wrap="letters") for label in labels)]
    return Table(title, header, cells, min_width=min(len(title), 80))


def side_by_side_table(first: str, second: str, found: Mapping[str, "SideBySide"]) -> Table:
    """Two models on each domain: the difference with its 95% interval and p-value."""
    rows = [
        (
            name,
            *(f"{count:,}" for count in (one.examples, one.only_first, one.only_second)),
            signed(100 * one.difference),
            f"{signed(100 * one.low)} to {signed(100 * one.high)}",
            p_value(one.p),
        )
        for name, one in found.items()
    ]
    names = ("examples", "first alone", "second alone", "difference", "95% interval", "p")
    title = f"accuracy of {first} (first) minus {second} (second), points"
    columns = [Column("domain", wrap="letters"), *numbers(*names)]
    return Table(title, columns, rows, layout="narrow", lines_above=[len(rows) - 1] if len(rows) > 1 else ())


def side_by_side_verdict(first: str, second: str, found: "SideBySide") -> str:
    """Which of two models is better, if these examples show it."""
    if found.low <= 0 <= found.high:
        differ = found.only_first + found.only_second
        return f"No clear difference: the models disagree on {differ:,} of {found.examples:,} examples."
    better, other = (first, second) if found.difference > 0 else (second, first)
    return f"{better} is better than {other} by {abs(100 * found.difference):.1f} points on these examples."
