"""Labels and which are taken for which, and two models side by side: tables for the terminal, and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from memgrow.evaluation.metrics import Confusion, SideBySide
from memgrow.report.picture_layout import LINE, HeatMaps, set_names, wrapped
from memgrow.report.plots import DPI, new_figure
from memgrow.report.table import Column, Table, numbers, p_value, percent, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

WIDEST = 80  # letters of a terminal
MOST = 8  # labels of a confusion matrix that a terminal has room for
MISTAKES = 10  # of very many labels, the mistakes that are shown
IN_PICTURE = 40  # labels whose names a picture has room for
FIGURES = 15  # labels up to which a picture has figures as well as colours
WITH_FIGURE, BARE = 0.45, 0.2  # inches of a field


def labels_table(domain: str, confusion: Confusion) -> Table:
    """Precision, recall and F1 of each label, and their means."""
    figures = confusion.by_label()
    rows = [
        (label, *map(percent, (one.precision, one.recall, one.f1)), f"{one.examples:,}")
        for label, one in figures.items()
    ]
    means = [sum(getattr(one, name) for one in figures.values()) / len(figures) for name in ("precision", "recall")]
    rows.append(("mean of labels", *map(percent, (*means, confusion.macro_f1)), f"{confusion.examples:,}"))
    title = f"{domain}: each label (always {confusion.most_frequent}: {percent(confusion.baseline)}% right)"
    columns = [Column("label", wrap="letters"), *numbers("precision", "recall", "F1", "examples")]
    return Table(title, columns, rows, lines_above=[len(rows) - 1])


def confusion_table(domain: str, confusion: Confusion) -> Table:
    """A row for each label, a column for each that was given; of many labels the most frequent mistakes."""
    labels, counts = confusion.labels, confusion.counts
    if len(labels) > MOST:
        pairs = [(count, a, b) for a, row in enumerate(counts) for b, count in enumerate(row) if count and a != b]
        worst = sorted(pairs, key=lambda pair: -pair[0])[:MISTAKES]
        rows = [(labels[a], labels[b], f"{count:,}") for count, a, b in worst]
        columns = [Column("label", wrap="letters"), Column("taken for", wrap="letters"), *numbers("examples")]
        return Table(f"{domain}: the most frequent mistakes (--json has all)", columns, rows)
    given = [Column(label, right=True, wrap="letters") for label in labels]
    rows_of_counts = [(label, *(f"{count:,}" for count in row)) for label, row in zip(labels, counts, strict=True)]
    title = f"{domain}: labels (rows) and answers (columns)"
    columns = [Column("", wrap="letters"), *given]
    return Table(title, columns, rows_of_counts, min_width=min(len(title), WIDEST))  # so that the title is one line


def side_by_side_table(first: str, second: str, found: Mapping[str, SideBySide]) -> Table:
    """Two models on each domain: the difference with its 95% interval, and how likely chance alone makes as much."""
    rows = [
        (
            name,
            f"{one.examples:,}",
            f"{one.only_first:,}",
            f"{one.only_second:,}",
            signed(100 * one.difference),
            f"{signed(100 * one.low)} to {signed(100 * one.high)}",
            p_value(one.p),
        )
        for name, one in found.items()
    ]
    names = ("examples", "first alone", "second alone", "difference", "95% interval", "p")
    title = f"right answers of {first} (first) less those of {second} (second), points"
    columns = [Column("domain", wrap="letters"), *numbers(*names)]
    return Table(title, columns, rows, layout="narrow", lines_above=[len(rows) - 1] if len(rows) > 1 else ())


def verdict(first: str, second: str, found: SideBySide) -> str:
    """Which of two models is better, if that can be told from these examples."""
    apart = found.only_first + found.only_second
    if found.low <= 0 <= found.high:
        return f"These examples do not tell which is better: {apart:,} of {found.examples:,} are answered differently."
    better, other = (first, second) if found.difference > 0 else (second, first)
    return f"{better} is better than {other} by {abs(100 * found.difference):.1f} points on these examples."


def draw_confusions(
    confusions: Mapping[str, Confusion], path: str | Path | BinaryIO, title: str, file_format: str | None = None
) -> None:
    """Draw a heat map for each domain: of the examples with a label, the share that was given each.

    A file without a name needs a format (png, svg or pdf), or is PNG.
    """
    most = max((one.labels for one in confusions.values()), key=len)
    maps = HeatMaps.of(len(confusions), _names(most), _names(most), WITH_FIGURE if len(most) <= FIGURES else BARE)
    width = maps.width * maps.columns
    heads, title = {name: wrapped(name, maps.width) for name in confusions}, wrapped(title, width)
    above = LINE * (1 + max(head.count("\n") for head in heads.values()))
    figure = new_figure(width, (maps.height + above) * maps.rows + LINE * title.count("\n"))
    axes = figure.subplots(maps.rows, maps.columns, squeeze=False)
    for axis in axes.flat[len(confusions) :]:
        axis.set_axis_off()
    for axis, (name, confusion) in zip(axes.flat, confusions.items(), strict=False):
        image = _draw(axis, heads[name], confusion)
    for axis in axes[:, 0]:
        axis.set_ylabel("label")
    figure.colorbar(image, ax=axes.ravel().tolist(), shrink=0.75, label="% of the examples with the label")
    figure.suptitle(title, parse_math=False)
    figure.savefig(path, dpi=DPI, format=file_format)


def _names(labels: Sequence[str]) -> Sequence[str]:
    """The labels as a picture has room for them: of very many none is named."""
    return labels if len(labels) <= IN_PICTURE else ()


def _draw(axis: "Axes", head: str, confusion: Confusion) -> "AxesImage":
    shares = [[100 * count / max(sum(row), 1) for count in row] for row in confusion.counts]
    image = axis.imshow(shares, vmin=0, vmax=100, cmap="Blues")
    places = range(len(confusion.labels))
    if len(confusion.labels) <= FIGURES:
        for row in places:
            for column in places:
                share, count = shares[row][column], confusion.counts[row][column]
                colour = "white" if share > 55 else "black"
                axis.text(column, row, f"{count:,}", ha="center", va="center", color=colour)
    set_names(axis, _names(confusion.labels), _names(confusion.labels))
    axis.set_xlabel("answer")
    axis.set_title(
        f"{head}\naccuracy {percent(confusion.accuracy)}, macro F1 {percent(confusion.macro_f1)}",
        fontsize=11,
        parse_math=False,
    )
    return image
