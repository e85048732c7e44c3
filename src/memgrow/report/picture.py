"""The accuracy matrices of several methods side by side, as a picture."""

from collections.abc import Mapping
from pathlib import Path

from memgrow.errors import SettingsError
from memgrow.metrics import AccuracyMatrix


def draw_matrices(matrices: Mapping[str, AccuracyMatrix], path: str | Path, title: str) -> None:
    """Write a PNG (or what else the name's ending says): one heat map for each method, and forgetting below it."""
    try:
        import matplotlib
    except ImportError as error:
        raise SettingsError("pictures need matplotlib: install it with `pip install 'memgrow[plots]'`") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(matrices), figsize=(4.6 * len(matrices), 4.6), squeeze=False, layout="constrained"
    )
    for axis, (name, matrix) in zip(axes[0], matrices.items(), strict=True):
        domains = matrix.domains
        values = [
            [100 * (matrix.score(stage, d) or float("nan")) for d in domains] for stage in range(len(matrix.rows))
        ]
        image = axis.imshow(values, vmin=30, vmax=100, cmap="viridis")
        learned_at = matrix.learned_at()
        for stage, row in enumerate(values):
            for column, value in enumerate(row):
                seen = stage >= learned_at.get(domains[column], len(values))
                axis.text(
                    column,
                    stage,
                    f"{value:.0f}",
                    ha="center",
                    va="center",
                    color="black" if value > 70 else "white",
                    alpha=1.0 if seen else 0.55,
                    fontweight="bold" if stage == learned_at.get(domains[column]) else "normal",
                )
        axis.set_xticks(range(len(domains)), domains, rotation=20)
        axis.set_yticks(range(len(values)), ["→ " + "+".join(row.learned) for row in matrix.rows])
        axis.set_xlabel("accuracy on")
        average, forgetting = matrix.average(), matrix.forgetting()
        line = f"{name}: average {100 * (average or 0):.1f}"
        axis.set_title(line + ("" if forgetting is None else f", forgot {100 * forgetting:.1f}"), fontsize=11)
    axes[0][0].set_ylabel("after learning")
    figure.colorbar(image, ax=axes[0].tolist(), shrink=0.75, label="test accuracy, %")
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    plt.close(figure)
