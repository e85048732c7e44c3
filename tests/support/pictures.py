"""Pictures as they were drawn, to measure where their texts ended up."""

import pytest
from matplotlib.figure import Figure

from memgrow.report.plots import DPI


def kept_figures(patch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that is saved from now on; it is saved all the same, which lays it out."""
    kept: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *given, **named) -> None:
        figure.set_dpi(DPI)  # that of the file: places are measured in its dots
        save(figure, *given, **named)
        kept.append(figure)

    patch.setattr(Figure, "savefig", keep)
    return kept
