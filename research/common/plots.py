"""Pictures by matplotlib, without pyplot."""

from typing import TYPE_CHECKING

from memgrow.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130


def new_figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError("pictures need matplotlib: install it with `pip install 'memgrow[plots]'`") from error
    return Figure(figsize=(width, height), layout="constrained")
