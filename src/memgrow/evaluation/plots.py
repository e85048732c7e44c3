"""Plots by matplotlib: accuracy matrices, methods and confusion. Each function returns a Figure."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, isfinite, isnan, log, nan
from textwrap import fill
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
STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "svg.fonttype": "none",
}
# In a page the colours are those of its style sheet, light or dark.
CSS = {INK: "--ink", SOFT: "--soft", GRID: "--edge", OWN: "--own", FINE: "--fine", ALL: "--all"}
SVG_METADATA = ("Date", "Creator", "Format", "Type")  # left out
MAX_NAME = 20  # letters of a name on an axis
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
def new_figure(width: float, height: float, title: str = "") -> "Figure":
    """A figure without pyplot: the caller's backend and open figures are left alone."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(_filled(title, width), x=0.01, ha="left")
    return figure


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


@dataclass(frozen=True)
class HeatMap:
    """Values and texts of cells, by row, between names of rows and columns; nan: a white cell."""

    title: str
    values: Sequence[Sequence[float]]
    texts: Sequence[Sequence[str]]
    across: Sequence[str]
    down: Sequence[str]


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
    maps = []
    for name, matrix in matrices.items():
        texts = [[measure.text(row.scores.get(domain), unit=False) for domain in matrix.domains] for row in matrix.rows]
        average, lost = measure.average(matrix), (forgot or {}).get(name, measure.forgetting(matrix))
        parts = [f"average {measure.text(average)}"] if average is not None else []
        parts += [f"forgot {measure.lost_text(lost).removeprefix('+')}"] if lost is not None else []
        stages = ["+".join(row.learned) for row in matrix.rows]
        maps.append(HeatMap(f"{name}: {', '.join(parts)}", shades(matrix, measure), texts, matrix.domains, stages))
    ends = shade_range([one.values for one in maps], measure)
    figure, axes = _draw_maps(maps, (0.78, 0.42), ends, (measure.axis, "after learning"), title)
    for axis, matrix in zip(axes, matrices.values(), strict=True):
        for domain, stage in matrix.learned_at().items():
            corner = (matrix.domains.index(domain) - 0.47, stage - 0.45)
            axis.add_patch(Rectangle(corner, 0.94, 0.9, fill=False, edgecolor=INK, lw=1.4, zorder=3))
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


def draw_confusions(confusions: "Mapping[str, Confusion]", title: str = "") -> "Figure":
    """A heat map per domain: of the examples with a label, the share that was given each prediction."""
    most = max(len(one.labels) for one in confusions.values())
    maps = []
    for name, one in confusions.items():
        figures = f"accuracy {percent(one.accuracy)}, macro F1 {percent(one.macro_f1)}"
        shares = [[100 * count / max(sum(row), 1) for count in row] for row in one.counts]
        texts = [[f"{count:,}" for count in row] for row in one.counts] if most <= MAX_COUNTS else []
        names = one.labels if len(one.labels) <= MAX_LABELS else ()
        maps.append(HeatMap(f"{name}: {figures}", shares, texts, names, names))
    cell = 0.55 if most <= MAX_COUNTS else 0.2
    return _draw_maps(maps, (cell, cell), (0, 100), ("prediction", "label"), title)[0]


@_style()
def _draw_maps(
    maps: Sequence[HeatMap], cell: tuple[float, float], ends: tuple[float, float], labels: tuple[str, str], title: str
) -> "tuple[Figure, list[Axes]]":
    """Heat maps one below the other; `cell` is the size of a cell in inches, `ends` are the values of the colours."""
    rows, columns = max(len(one.values) for one in maps), max(len(one.values[0]) for one in maps)
    longest = max((len(shortened(name, MAX_NAME)) for one in maps for name in (*one.across, *one.down)), default=0)
    names, is_steep = 0.085 * longest, longest > 10 or columns > 12
    width = max(4.0, cell[0] * columns + names + 0.7)
    height = max(1.6, cell[1] * rows + (names if is_steep else 0.2) + 0.9)
    figure = new_figure(width, height * len(maps) + (0.4 if title else 0), title)
    axes = list(figure.subplots(len(maps), squeeze=False).flat)
    for axis, one in zip(axes, maps, strict=True):
        edges = [[index - 0.5 for index in range(count + 1)] for count in (len(one.values[0]), len(one.values))]
        # Cells as vectors, which `imshow` would make a bitmap of.
        axis.pcolormesh(*edges, one.values, vmin=ends[0], vmax=ends[1], cmap="Blues", edgecolors="white", linewidth=2)
        axis.invert_yaxis()
        for row, line in enumerate(one.texts):
            for column, text in enumerate(line):
                value = one.values[row][column]
                colour = SOFT if isnan(value) else "white" if value > sum(ends) / 2 else INK
                style = "italic" if isnan(value) else "normal"
                axis.text(column, row, text, ha="center", va="center", color=colour, fontstyle=style)
        across, down = ([shortened(name, MAX_NAME) for name in names] for names in (one.across, one.down))
        axis.set_xticks(range(len(across)), across, rotation=90 if is_steep else 0)
        axis.set_yticks(range(len(down)), down)
        axis.set(xlabel=labels[0], ylabel=labels[1])
        axis.set_title(_filled(one.title, width - 0.8), loc="left")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    return figure, axes


def _filled(text: str, width: float) -> str:
    return fill(text, max(20, int(9 * width)))


# Methods


@_style()
def draw_comparison(comparison: "Comparison", title: str = "") -> "Figure":
    """Average and forgetting of each method, every seed a dot."""
    from memgrow.evaluation.comparison_tables import marked

    methods = comparison.order
    figure = new_figure(9.0, 1.1 + 0.34 * len(methods) + (0.4 if title else 0), title)
    axes = figure.subplots(1, 2, sharey=True)
    labels = {
        "average": f"{comparison.measure.axis}: average at the end\n(right is better)",
        "forgetting": "forgetting, points\n(left is better)",
    }
    for axis, (name, label) in zip(axes, labels.items(), strict=True):
        for line, method in enumerate(methods):
            value = comparison.summary[method][name]
            if value.mean is None:
                continue
            colour = {"finetune": FINE, "multi-task": ALL}.get(method, OWN)
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
    return figure
