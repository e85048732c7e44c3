"""The pictures of a report by matplotlib, for papers and slides: each as PNG and as SVG."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil, nan
from pathlib import Path
from typing import Any, BinaryIO

from memgrow.data.disk import atomic_open
from memgrow.evaluation.attention import MemoryUse
from memgrow.evaluation.history import Stage
from memgrow.report.lines import NAMED, Line, report_lines, shown_domains, stage_marks, tested_domains
from memgrow.report.matrix import MANY, is_readable
from memgrow.report.measures import Measure, validation_axis
from memgrow.report.picture_layout import HeatMaps, path_text, set_names
from memgrow.report.plots import DPI, draw_comparison, draw_matrices, new_figure
from memgrow.report.run_report import RunReport
from memgrow.report.table import shortened

KINDS = ("png", "svg")
MOST = 12  # stages whose training is drawn
PANEL, IN_A_ROW = (3.6, 2.9), 3  # inches
NAME, TITLE = 12, 30  # letters of a stage's name below an axis, and of a title above it
# By the kind of a line, as in style.css: colours that differ to all eyes, and never colours alone.
LOOKS: dict[str, dict[str, Any]] = {
    "own": {"color": "#0b62a8", "marker": "o", "linewidth": 2.2},
    "fine": {"color": "#c05000", "marker": "s", "linestyle": "--"},
    "all": {"color": "#007a5a", "linestyle": ":"},
}


def save_pictures(report: RunReport, folder: Path) -> list[Path]:
    """Write all pictures that there are figures for, each whole or not at all, and tell which."""
    import matplotlib

    written = []
    for name, draw in _pictures(report):
        for kind in KINDS:
            settings: dict[Any, Any] = {"savefig.format": kind, "svg.hashsalt": name, "svg.fonttype": "none"}
            with atomic_open(folder / f"{name}.{kind}") as file, matplotlib.rc_context(settings):
                draw(file)
            written.append(folder / f"{name}.{kind}")
    return written


def _pictures(report: RunReport) -> Iterator[tuple[str, Callable[[BinaryIO], None]]]:
    comparison, memory = report.comparison, report.memory
    title = path_text(["+".join(row.learned) for row in report.matrix.rows])
    matrices = {report.own_name: report.matrix}
    if comparison is not None:
        others = [name for name in comparison.order if name != report.own_name]
        matrices |= {name: matrix for name in others if len((matrix := comparison.mean_matrix(name)).rows) > 1}
    if is_readable(report.matrix) and any(row.scores for row in report.matrix.rows):
        yield "matrix", lambda file: draw_matrices(matrices, file, title, _forgot(report), report.measure)
    if len(report.matrix.rows) > 1 and tested_domains(report):
        yield "curves", lambda file: draw_curves(report, file)
    if comparison is not None and len(comparison.results) > 1:
        yield "methods", lambda file: draw_comparison(comparison, file, title)
    if report.history is not None and any(stage.curve.validation for stage in report.history.stages):
        stages = [stage for stage in report.history.stages if stage.curve.validation][-MOST:]
        yield "training", lambda file: draw_training(stages, report.measure, file)
    if memory is not None and len(memory.slots) <= MANY:
        yield "attention", lambda file: draw_attention(memory, file)


def _forgot(report: RunReport) -> dict[str, float | None]:
    """Of methods that were run with several seeds: the mean, which is not that of the mean matrix."""
    figures = {} if report.comparison is None else report.comparison.summary
    return {name: one["forgetting"].mean for name, one in figures.items()}


def draw_curves(report: RunReport, path: BinaryIO) -> None:
    """Draw each domain's score over the stages, the chosen method beside fine-tuning and retraining."""
    domains, lines, stages = shown_domains(report), report_lines(report), len(report.matrix.rows)
    across = 2 if len(domains) == 4 else min(len(domains), IN_A_ROW)
    down = ceil(len(domains) / across)
    figure = new_figure(PANEL[0] * across, PANEL[1] * down + 0.4)
    axes = figure.subplots(down, across, squeeze=False, sharey=True)
    for axis in axes.flat[len(domains) :]:
        axis.set_axis_off()
    marks, below = stage_marks(report.matrix, NAME)
    for axis, domain in zip(axes.flat, domains, strict=False):
        for line in lines:
            points = line.points(domain, stages)
            axis.errorbar(
                [stage for stage, _ in points],
                [report.measure.figure(score) for _, score in points],
                yerr=_spread(line, domain, points, report) if line.spread and line.kind != "all" else None,
                label=line.name,
                markersize=5,
                capsize=2,
                **LOOKS[line.kind],
            )
        learned = report.matrix.learned_at().get(domain)
        if learned:
            axis.axvline(learned, color="#888888", linewidth=0.8, linestyle=":")
        if report.measure.better == "lower":
            axis.set_yscale("log")
        axis.set_title(shortened(domain, TITLE), fontsize=10, parse_math=False)
        slant = 20 if stages <= NAMED else 0
        axis.set_xticks(list(marks), list(marks.values()), rotation=slant, parse_math=False, fontsize=8)
        axis.set_xlabel(below)
        axis.grid(axis="y", alpha=0.25)
    for axis in axes[:, 0]:
        axis.set_ylabel(report.measure.axis)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(lines), across), frameon=False)
    figure.savefig(path, dpi=DPI)


def _spread(line: Line, domain: str, points: list[tuple[int, float]], report: RunReport) -> list[float]:
    """Of scores that are shares; of perplexities there is one seed."""
    away = (line.spread or {}).get
    return [abs(report.measure.figure(away((stage, domain), 0.0))) for stage, _ in points]


def draw_training(stages: Sequence[Stage], measure: Measure, path: BinaryIO) -> None:
    """Draw the validation score and the loss of each stage by epoch; the epoch that was kept is marked."""
    across = min(len(stages), IN_A_ROW)
    down = ceil(len(stages) / across)
    figure = new_figure(PANEL[0] * across + 0.4, PANEL[1] * down)
    axes = figure.subplots(down, across, squeeze=False)
    for axis in axes.flat[len(stages) :]:
        axis.set_axis_off()
    for axis, stage in zip(axes.flat, stages, strict=False):
        epochs = range(1, len(stage.curve.validation) + 1)
        figures = [measure.figure(score) for score in stage.curve.validation]
        axis.plot(epochs, figures, markersize=3, **LOOKS["own"])
        if 1 <= stage.best_epoch <= len(figures):  # a stranger's history may say anything
            axis.plot(stage.best_epoch, figures[stage.best_epoch - 1], "o", color=LOOKS["own"]["color"], markersize=9)
        beside = axis.twinx()
        losses = [nan if loss is None else loss for loss in stage.curve.loss]
        beside.plot(epochs, losses, **{**LOOKS["fine"], "marker": None})
        axis.set_title(shortened("+".join(stage.learned), TITLE), fontsize=10, parse_math=False)
        axis.set_xlabel("epoch")
        axis.locator_params(axis="x", integer=True, min_n_ticks=1)  # there is no half an epoch
        axis.set_ylabel(validation_axis(measure), color=LOOKS["own"]["color"])
        beside.set_ylabel("loss (dashes)", color=LOOKS["fine"]["color"])
        axis.grid(axis="y", alpha=0.25)
    figure.savefig(path, dpi=DPI)


def draw_attention(memory: MemoryUse, path: BinaryIO) -> None:
    """Draw how the attention of each domain's texts divides among the domains' slots."""
    owners, readers = list(memory.slots), list(memory.shares)
    size = HeatMaps.of(1, owners, readers, 0.6)
    figure = new_figure(size.width, size.height)
    axis = figure.subplots()
    values = [[100 * memory.shares[reader][owner] for owner in owners] for reader in readers]
    most = 100 * memory.darkest
    image = axis.imshow(values, vmin=0, vmax=most, cmap="Blues", aspect="auto")
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            colour = "white" if value > 0.6 * most else "black"
            axis.text(column, row, f"{value:.1f}", ha="center", va="center", color=colour)
    set_names(axis, owners, readers)
    axis.set_xlabel("slots of")
    axis.set_ylabel("texts of")
    figure.colorbar(image, ax=axis, label="attention, %")
    figure.savefig(path, dpi=DPI)
