"""The accuracy matrices of several methods side by side, as a picture."""

from collections.abc import Mapping
from math import ceil, nan
from pathlib import Path
from typing import TYPE_CHECKING

from memgrow.errors import SettingsError
from memgrow.metrics import AccuracyMatrix
from memgrow.report.table import UNKNOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

SIDE, ABREAST, DPI = 4.6, 4, 130  # inches of a heat map, how many stand in a row, dots in an inch
DARKEST, LIGHTEST = 30, 100  # percent at the two ends of the colours
MIDDLE = 70  # from here on the ground is so light that figures are black


def draw_matrices(
    matrices: Mapping[str, AccuracyMatrix], path: str | Path, title: str, forgot: Mapping[str, float] | None = None
) -> None:
    """Write a PNG (or what else the name's ending says): one heat map for each method, and forgetting above it.

    `forgot` is given where it is no matter of the matrix shown: the mean over seeds is not that of the mean matrix.
    """
    try:
        # A figure by itself, without pyplot: a caller's backend and open figures are left alone.
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError("pictures need matplotlib: install it with `pip install 'memgrow[plots]'`") from error
    columns, rows = min(len(matrices), ABREAST), ceil(len(matrices) / ABREAST)
    figure = Figure(figsize=(SIDE * columns, SIDE * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(matrices) :]:
        axis.set_axis_off()
    for axis, (name, matrix) in zip(axes.flat, matrices.items(), strict=False):
        image = _draw(axis, name, matrix, (forgot or {}).get(name, matrix.forgetting()))
    for axis in axes[:, 0]:
        axis.set_ylabel("after learning")
    figure.colorbar(image, ax=axes.ravel().tolist(), shrink=0.75, label="test accuracy, %")
    figure.suptitle(title)
    figure.savefig(path, dpi=DPI)


def _draw(axis: "Axes", name: str, matrix: AccuracyMatrix, forgetting: float | None) -> "AxesImage":
    domains, learned_at = matrix.domains, matrix.learned_at()
    scores = [[matrix.score(stage, domain) for domain in domains] for stage in range(len(matrix.rows))]
    values = [[nan if score is None else 100 * score for score in row] for row in scores]
    image = axis.imshow(values, vmin=DARKEST, vmax=LIGHTEST, cmap="viridis")
    for stage, row in enumerate(values):
        for column, (domain, value) in enumerate(zip(domains, row, strict=True)):
            learned = learned_at.get(domain, len(values))
            axis.text(
                column,
                stage,
                UNKNOWN if value != value else f"{value:.0f}",
                ha="center",
                va="center",
                color="white" if value <= MIDDLE else "black",
                alpha=1.0 if stage >= learned else 0.55,
                fontweight="bold" if stage == learned else "normal",
            )
    # A dollar in a name is a dollar, and no formula.
    axis.set_xticks(range(len(domains)), domains, rotation=20, parse_math=False)
    axis.set_yticks(range(len(values)), ["→ " + "+".join(row.learned) for row in matrix.rows], parse_math=False)
    axis.set_xlabel("accuracy on")
    average = matrix.average()
    parts = [f"average {100 * average:.1f}"] if average is not None else []
    parts += [f"forgot {100 * forgetting:.1f}"] if forgetting is not None else []
    axis.set_title(f"{name}: {', '.join(parts)}" if parts else name, fontsize=11)
    return image
