"""Pictures by matplotlib: accuracy matrices, methods compared, and curves of the paper's tables.

Every picture is a PNG, or what else the ending of its file's name says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from memgrow.errors import SettingsError
from memgrow.evaluation.comparison import BASELINE, RETRAINING, Comparison
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.report.comparison import marked
from memgrow.report.measures import MEASURES, Measure
from memgrow.report.picture_layout import HEAD, LINE, HeatMaps, set_names, wrapped
from memgrow.report.table import UNKNOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

ACCURACY = MEASURES["accuracy"]

DPI = 130  # dots in an inch; all other sizes are in inches

# Heat maps of accuracy matrices
DARKEST, LIGHTEST = 30, 100  # percent at the two ends of the colours
MIDDLE = 60  # above it black stands out from the ground more than white does

# Methods compared
WIDTH, ABOVE, ROW = 9.0, 1.6, 0.42
COLOUR, REFERENCE = "#2a6f97", {BASELINE: "#8a8a8a", RETRAINING: "#c1666b"}

# Curves
PANEL = (4.6, 3.6)
OURS, PAPER = "#1f4e79", "#b0642a"


def new_figure(width: float, height: float) -> "Figure":
    """A figure by itself, without pyplot: a caller's backend and open figures are left alone."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError("pictures need matplotlib: install it with `pip install 'memgrow[plots]'`") from error
    return Figure(figsize=(width, height), layout="constrained")


def draw_matrices(
    matrices: Mapping[str, AccuracyMatrix],
    path: str | Path | BinaryIO,
    title: str,
    forgot: Mapping[str, float | None] | None = None,
    measure: Measure | None = None,
) -> None:
    """Draw one heat map for each method, with average and forgetting above it; what was not learnt yet is in italics.

    `forgot` is for means over seeds: the forgetting of a mean matrix is another number. A `measure` other than accuracy
    has colours from the worst to the best that is shown.
    """
    look = Look.of(measure or ACCURACY, matrices.values())
    longest = max(matrices.values(), key=lambda matrix: len(matrix.rows))
    maps = HeatMaps.of(len(matrices), longest.domains, _stages(longest), look.cell)
    title = wrapped(title, maps.width * maps.columns)
    figure = new_figure(maps.width * maps.columns, maps.height * maps.rows + LINE * title.count("\n"))
    axes = figure.subplots(maps.rows, maps.columns, squeeze=False)
    for axis in axes.flat[len(matrices) :]:
        axis.set_axis_off()
    for axis, (name, matrix) in zip(axes.flat, matrices.items(), strict=False):
        lost = (forgot or {}).get(name, look.measure.forgetting(matrix))
        image = _draw_matrix(axis, matrix, look)
        head = _head(name, look.measure, look.measure.average(matrix), lost)
        axis.set_title(wrapped(head, maps.width, HEAD), fontsize=11, parse_math=False)
    for axis in axes[:, 0]:
        axis.set_ylabel("after learning")
    bar = figure.colorbar(image, ax=axes.ravel().tolist(), shrink=0.75, label=look.measure.axis)
    if look.measure is not ACCURACY:
        bar.set_ticks(look.ends, labels=look.end_texts)
    figure.suptitle(title, parse_math=False)
    figure.savefig(path, dpi=DPI)


@dataclass(frozen=True)
class Look:
    """The two ends of the colours, as places on a measure's scale, and what they are called."""

    measure: Measure
    ends: tuple[float, float]
    end_texts: tuple[str, str]

    @classmethod
    def of(cls, measure: Measure, matrices: Iterable[AccuracyMatrix]) -> "Look":
        if measure is ACCURACY:
            return cls(measure, (DARKEST / 100, LIGHTEST / 100), (str(DARKEST), str(LIGHTEST)))
        given = (score for matrix in matrices for row in matrix.rows for score in row.scores.values())
        scores = measure.on_scale(given) or [0.5, 1.0]
        worst, best = min(scores), max(scores)
        low, high = measure.place(worst), measure.place(best)
        return cls(measure, (min(low, high - measure.least), high), (measure.shown(worst), measure.shown(best)))

    @property
    def cell(self) -> float:
        """Inches of a field that its figure fits into."""
        return 0.42 if self.measure is ACCURACY else 0.65

    def is_light(self, place: float) -> bool:
        """Whether the ground is so light that figures have to be black."""
        low, high = self.ends
        return (place - low) / (high - low) > (MIDDLE - DARKEST) / (LIGHTEST - DARKEST)

    def text(self, score: float) -> str:
        return f"{100 * score:.0f}" if self.measure is ACCURACY else self.measure.shown(score)


def _stages(matrix: AccuracyMatrix) -> list[str]:
    return ["→ " + "+".join(row.learned) for row in matrix.rows]


def _head(name: str, measure: Measure, average: float | None, lost: float | None) -> str:
    parts = [f"average {measure.shown(average).removesuffix('%')}"] if average is not None else []
    parts += [f"forgot {measure.lost_text(lost).removeprefix('+')}"] if lost is not None else []
    return f"{name}: {', '.join(parts)}" if parts else name


def _draw_matrix(axis: "Axes", matrix: AccuracyMatrix, look: Look) -> "AxesImage":
    domains, learned_at, measure = matrix.domains, matrix.learned_at(), look.measure
    scores = [[matrix.score(stage, domain) for domain in domains] for stage in range(len(matrix.rows))]
    places = [[nan if score is None else measure.place(score) for score in row] for row in scores]
    if measure is ACCURACY:  # so that the bar has percent
        shown, ends = [[100 * place for place in row] for row in places], (DARKEST, LIGHTEST)
        image = axis.imshow(shown, vmin=ends[0], vmax=ends[1], cmap="viridis")
    else:
        image = axis.imshow(places, vmin=look.ends[0], vmax=look.ends[1], cmap="viridis")
    for stage, row in enumerate(scores):
        for column, (domain, score) in enumerate(zip(domains, row, strict=True)):
            learned = learned_at.get(domain, len(scores))
            axis.text(
                column,
                stage,
                UNKNOWN if score is None else look.text(score),
                ha="center",
                va="center",
                color="black" if score is None or look.is_light(measure.place(score)) else "white",
                fontstyle="normal" if stage >= learned else "italic",
                fontweight="bold" if stage == learned else "normal",
            )
    set_names(axis, domains, _stages(matrix))
    axis.set_xlabel(f"{measure.name} on")
    return image


def draw_comparison(comparison: Comparison, path: str | Path | BinaryIO, title: str) -> None:
    """Draw average and forgetting of the methods below each other, every seed a dot."""
    methods = comparison.order
    title = wrapped(title, WIDTH)
    figure = new_figure(WIDTH, ABOVE + ROW * len(methods) + LINE * title.count("\n"))
    panels = {
        "average": f"{comparison.kind.average}\n(right is better)",
        "forgetting": "forgetting, points\n(left is better)",
    }
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, (name, label) in zip(axes, panels.items(), strict=True):
        _draw_seeds(axis, comparison, name)
        axis.set_xlabel(label)
    axes[0].set_yticks(range(len(methods)), [marked(method) for method in methods])
    axes[0].set_ylim(len(methods) - 0.5, -0.5)
    figure.suptitle(title, parse_math=False)
    figure.savefig(path, dpi=DPI)


def _draw_seeds(axis: "Axes", comparison: Comparison, name: str) -> None:
    for line, method in enumerate(comparison.order):
        value, colour = comparison.summary[method][name], REFERENCE.get(method, COLOUR)
        if value.mean is None:
            continue
        seeds = [100 * one for one in value.seeds.values()]
        axis.plot(seeds, [line] * len(seeds), "o", color=colour, alpha=0.35, markersize=5)
        axis.plot(100 * value.mean, line, "|", color=colour, markersize=16, markeredgewidth=3)
        if method in REFERENCE:
            axis.axvline(100 * value.mean, color=colour, linewidth=0.8, linestyle=":")
    axis.grid(axis="x", alpha=0.25)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(left=False)
