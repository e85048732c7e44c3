"""Pictures by matplotlib, without pyplot."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memgrow.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130
OFFSETS = [(side * right, up) for right, up in product((7, 25, 50), (0, 9, -9, 18, -18, 28, -28)) for side in (1, -1)]


def new_figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError("pictures need matplotlib: install it with `pip install matplotlib`") from error
    return Figure(figsize=(width, height), layout="constrained")


def panels(count: int, width: float, height: float) -> tuple["Figure", list[Any]]:
    """A figure with so many panels below each other, one at least."""
    figure = new_figure(width, height * max(count, 1))
    figure.set_dpi(DPI)
    return figure, list(figure.subplots(max(count, 1), squeeze=False).flat)


def save(figure: "Figure", path: Path, folder: Path) -> None:
    """Write a PNG with a checksum of the figures it shows, so that a check can tell when it is out of date."""
    figure.savefig(path, dpi=DPI, format="png", metadata={"Description": checksum(folder)})


def checksum(folder: Path) -> str:
    """The checksum of the files that a picture is made from."""
    there = sorted(folder.glob("*.json"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in there)).hexdigest()


def figures_in(folder: Path) -> list[dict[str, Any]]:
    """What the files in a folder of figures hold."""
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]


def write_labels(
    axis: Any,
    places: Mapping[str, tuple[float, float]],
    labels: Mapping[str, str],
    colours: Mapping[str, str],
    taken: Iterable[Any] = (),
) -> None:
    """Write each label at the first place around its point where it covers no point, no other label and nothing taken.

    A label without room is left out.
    """
    from matplotlib.transforms import Bbox

    dots = [axis.transData.transform(place) for place in places.values()]
    boxes = [*(Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in dots), *taken]
    for name, place in sorted(places.items(), key=lambda one: one[1]):
        look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": colours[name]}
        for right, up in OFFSETS:
            side = "left" if right > 0 else "right"
            written = axis.annotate(labels[name], place, xytext=(right, up), ha=side, **look)
            box = written.get_window_extent()
            inside = axis.bbox.containsx(box.x0) and axis.bbox.containsx(box.x1) and axis.bbox.containsy(box.y0)
            if inside and not any(box.overlaps(other) for other in boxes):
                boxes.append(box)
                line = {"arrowstyle": "-", "linewidth": 0.5, "color": colours[name]}
                axis.annotate("", place, xytext=(right, up), textcoords="offset points", arrowprops=line)
                break
            written.remove()
