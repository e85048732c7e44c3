"""Plots by matplotlib: accuracy matrices, methods and confusion. Each function returns a Figure."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, inf, isfinite, isnan, log, nan
from typing import TYPE_CHECKING, Any

from memgrow.errors import SettingsError
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.evaluation.tables import MEASURES, Measure, percent, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from memgrow.evaluation.comparison import Comparison
    from memgrow.evaluation.metrics import Confusion

DPI = 130
OWN, FINE, ALL = "#0b62a8", "#c05000", "#007a5a"  # the method in question, fine-tuning, retraining
INK, SOFT, GRID = "#1b2026", "#586270", "#d5dbe3"
COLOURS = "Blues"
STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "grid.color": GRID,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "svg.fonttype": "none",
    "legend.frameon": False,
}
# In a page the colours are those of its style sheet, light or dark.
CSS = {INK: "--ink", SOFT: "--soft", GRID: "--edge", OWN: "--own", FINE: "--fine", ALL: "--all"}
SVG_METADATA = ("Date", "Creator", "Format", "Type")  # left out
MAX_NAME = 20  # letters of a name on an axis
PAGE_WIDTH = 10.6  # inches
MAX_MATRIX = 25  # stages or domains of a matrix
MAX_LABELS, MAX_COUNTS = 40, 15  # labels that are named, and up to which cells have counts


@contextmanager
def _style() -> Iterator[None]:
    """Draw in memgrow's style; without matplotlib, say what to install. Also a decorator."""
    try:
        import matplotlib
    except ImportError as error:
        raise SettingsError("plots need matplotlib: install it with `pip install 'memgrow[plots]'`") from error
    with matplotlib.rc_context(STYLE):
        yield


@_style()
def new_figure(width: float, height: float) -> "Figure":
    """A figure without pyplot: the caller's backend and open figures are left alone."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", file: Any, file_format: str | None = None, salt: str = "memgrow", **how: Any) -> None:
    """Write PNG, SVG or PDF, by the name of the file or `file_format`; `salt` decides on the ids of an SVG."""
    import matplotlib

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": salt}):
        figure.savefig(file, dpi=DPI, format=file_format, **how)


def to_svg(figure: "Figure", name: str) -> str:
    """An <svg> element for a page; `name` keeps its ids apart from those of other plots."""
    save_figure(figure, file := io.StringIO(), "svg", name, transparent=True, metadata=dict.fromkeys(SVG_METADATA))
    text = file.getvalue()
    for colour, variable in CSS.items():
        text = text.replace(colour, f"var({variable})")
    return text[text.index("<svg") :]


# Heat maps


@_style()
def draw_matrices(
    matrices: Mapping[str, AccuracyMatrix],
    title: str = "",
    forgot: Mapping[str, float | None] | None = None,
    measure: Measure | None = None,
) -> "Figure":
    """A heat map per method. Framed: just learned; italic: not learned yet.

    `forgot` is for means over seeds: the forgetting of a mean matrix is another number.
    """
    from matplotlib.patches import Rectangle

    measure = measure or MEASURES["accuracy"]
    longest = max(matrices.values(), key=lambda matrix: len(matrix.rows))
    figure, axes = _maps(len(matrices), longest.domains, _stages(longest), (0.78, 0.42), title)
    grids = {name: shades(matrix, measure) for name, matrix in matrices.items()}
    ends = shade_range(grids.values(), measure)
    for axis, (name, matrix) in zip(axes, matrices.items(), strict=False):
        texts = [[measure.text(row.scores.get(domain), unit=False) for domain in matrix.domains] for row in matrix.rows]
        _draw_cells(axis, grids[name], texts, ends)
        for domain, stage in matrix.learned_at().items():
            corner = (matrix.domains.index(domain) - 0.47, stage - 0.45)
            axis.add_patch(Rectangle(corner, 0.94, 0.9, fill=False, edgecolor=INK, lw=1.4, zorder=3))
        _set_names(axis, matrix.domains, _stages(matrix))
        axis.set_xlabel(measure.axis)
        axis.set_ylabel("after learning")
        lost = (forgot or {}).get(name, measure.forgetting(matrix))
        parts = [f"average {measure.text(average)}"] if (average := measure.average(matrix)) is not None else []
        parts += [f"forgot {measure.lost_text(lost).removeprefix('+')}"] if lost is not None else []
        if name or len(matrices) > 1:
            axis.set_title(_wrapped(f"{name}: {', '.join(parts)}", axis), loc="left")
    return figure


def evenly(score: float | None, measure: Measure) -> float:
    """A score on a scale on which equal steps look equal; nan where there is none."""
    if score is None or not measure.is_perplexity:
        return nan if score is None else score
    return log(score) if score > 0 else nan


def shades(matrix: AccuracyMatrix, measure: Measure) -> list[list[float]]:
    """Scores of learned domains, evenly scaled; nan: not learned or not tested."""
    learned = matrix.learned_at()
    return [
        [evenly(row.scores.get(name) if learned.get(name, inf) <= stage else None, measure) for name in matrix.domains]
        for stage, row in enumerate(matrix.rows)
    ]


def shade_range(grids: Iterable[Sequence[Sequence[float]]], measure: Measure) -> tuple[float, float]:
    """The lowest and the highest shade; never so close that noise gets strong colours."""
    values = [value for grid in grids for row in grid for value in row if isfinite(value)] or [0.0, 1.0]
    least = 0.4 if measure.is_perplexity else 0.1 if measure.unit else 0.01
    return min(min(values), max(values) - least), max(values)


@_style()
def draw_confusions(confusions: "Mapping[str, Confusion]", title: str = "") -> "Figure":
    """A heat map per domain: of the examples with a label, the share that was given each prediction."""
    most = max((one.labels for one in confusions.values()), key=len)
    cell = 0.55 if len(most) <= MAX_COUNTS else 0.2
    figure, axes = _maps(len(confusions), most, most, (cell, cell), title)
    for axis, (name, confusion) in zip(axes, confusions.items(), strict=False):
        shares = [[100 * count / max(sum(row), 1) for count in row] for row in confusion.counts]
        texts = [[f"{count:,}" for count in row] for row in confusion.counts]
        _draw_cells(axis, shares, texts if len(most) <= MAX_COUNTS else [], (0, 100))
        names = confusion.labels if len(confusion.labels) <= MAX_LABELS else ()
        _set_names(axis, names, names)
        axis.set_xlabel("prediction")
        axis.set_ylabel("label")
        figures = f"accuracy {percent(confusion.accuracy)}, macro F1 {percent(confusion.macro_f1)}"
        axis.set_title(_wrapped(f"{name}: {figures}", axis), loc="left")
    return figure


def _draw_cells(
    axis: "Axes", values: Sequence[Sequence[float]], texts: Sequence[Sequence[str]], ends: tuple[float, float]
) -> None:
    """Coloured cells as vectors, which `imshow` would make a bitmap of; nan: left white, its text in italics."""
    edges = [[index - 0.5 for index in range(count + 1)] for count in (len(values[0]), len(values))]
    style: dict[str, Any] = {"cmap": COLOURS, "edgecolors": "white", "linewidth": 2}
    axis.pcolormesh(*edges, values, vmin=ends[0], vmax=ends[1], **style)
    axis.set_ylim(len(values) - 0.5, -0.5)
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            value = values[row][column]
            colour = SOFT if isnan(value) else "white" if value > (ends[0] + ends[1]) / 2 else INK
            italic = "italic" if isnan(value) else "normal"
            axis.text(column, row, text, ha="center", va="center", color=colour, fontstyle=italic)


def _maps(
    count: int, across: Sequence[str], down: Sequence[str], cell: tuple[float, float], title: str = ""
) -> "tuple[Figure, list[Axes]]":
    """Axes for heat maps of equal size, as many side by side as a page has room for."""
    beside, below = (
        0.085 * max((len(shortened(name, MAX_NAME)) for name in names), default=0) for names in (down, across)
    )
    width = max(2.6, cell[0] * len(across) + beside + 0.7)
    height = max(1.6, cell[1] * len(down) + (below if _steep(across) else 0.2) + 0.9)
    columns = max(1, min(count, int(PAGE_WIDTH / width)))
    rows = ceil(count / columns)
    figure = new_figure(width * columns, height * rows + (0.4 if title else 0))
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes:
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    for axis in axes[count:]:
        axis.set_axis_off()
    if title:
        figure.suptitle(_filled(title, width * columns), x=0.01, ha="left")
    return figure, axes[:count]


def _set_names(axis: "Axes", across: Sequence[str], down: Sequence[str]) -> None:
    names = [shortened(name, MAX_NAME) for name in across]
    axis.set_xticks(range(len(names)), names, rotation=90 if _steep(across) else 0)
    axis.set_yticks(range(len(down)), [shortened(name, MAX_NAME) for name in down])


def _steep(names: Sequence[str]) -> bool:
    return max((len(name) for name in names), default=0) > 10 or len(names) > 12


def _stages(matrix: AccuracyMatrix) -> list[str]:
    return ["+".join(row.learned) for row in matrix.rows]


def _filled(text: str, width: float) -> str:
    from textwrap import fill

    return fill(text, max(20, int(9 * width)))


def _wrapped(text: str, axis: "Axes") -> str:
    figure: Any = axis.figure
    grid: Any = axis.get_gridspec()
    return _filled(text, figure.get_figwidth() / grid.ncols - 0.8)


# Methods


@_style()
def draw_comparison(comparison: "Comparison", title: str = "") -> "Figure":
    """Average and forgetting of each method, every seed a dot."""
    from memgrow.evaluation.comparison_tables import marked

    methods = comparison.order
    figure = new_figure(9.0, 1.1 + 0.34 * len(methods) + (0.4 if title else 0))
    axes = figure.subplots(1, 2, sharey=True)
    labels = {
        "average": f"{comparison.measure.axis}: average at the end\n(right is better)",
        "forgetting": "forgetting, points\n(left is better)",
    }
    for axis, (name, label) in zip(axes, labels.items(), strict=True):
        for line, method in enumerate(methods):
            value = comparison.summary[method][name]
            colour = {"finetune": FINE, "multi-task": ALL}.get(method, OWN)
            if value.mean is None:
                continue
            seeds = [100 * one for one in value.seeds.values()]
            axis.plot(seeds, [line] * len(seeds), "o", color=colour, alpha=0.4, markersize=5, markeredgewidth=0)
            axis.plot(100 * value.mean, line, "|", color=colour, markersize=15, markeredgewidth=2.6)
        axis.set_xlabel(label)
        axis.grid(axis="x")
        axis.set_axisbelow(True)
        axis.spines["left"].set_visible(False)
        axis.tick_params(left=False)
    axes[0].set_yticks(range(len(methods)), [marked(method) for method in methods], color=INK)
    axes[0].set_ylim(len(methods) - 0.5, -0.5)
    if title:
        figure.suptitle(_filled(title, 9.0), x=0.01, ha="left")
    return figure
