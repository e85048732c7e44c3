"""Room for texts in pictures: titles in lines that fit, names cut short, and heat maps that grow with their names.

Sizes are in inches, and by the letters of matplotlib's own font at its usual size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from textwrap import fill
from typing import TYPE_CHECKING

from rich.cells import cell_len

from memgrow.report.table import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER, LINE = 0.085, 0.25  # a letter of a name; from line to line of a title
TITLE, HEAD = 6.5, 10.0  # letters of a picture's title, and of that above a part of it, to an inch
LONGEST = 20  # letters of a name
FLAT, SLANTED = 6, 12  # names, and letters of the longest, up to which they need not stand upright
NAMED = 10  # domains of which a title names all
SIDE, WIDEST = 4.6, 18.4  # of a heat map, at least; of all that stand side by side, at most
NARROWEST = 2.4  # cells of a map together, whose title is as wide
AROUND = 1.2  # beside the cells and their names: the axis' own name, and a share of the bar


@dataclass(frozen=True)
class HeatMaps:
    """The size of each of several heat maps, and how they stand: `columns` side by side, `rows` below each other."""

    width: float
    height: float
    columns: int
    rows: int

    @classmethod
    def of(cls, count: int, across: Sequence[str], down: Sequence[str], cell: float) -> "HeatMaps":
        """Room for so many maps, each with these names below and beside cells of that size at least."""
        below = LETTER * _longest(across) if _is_steep(across) else 0.0
        width = max(SIDE, max(cell * len(across), NARROWEST) + LETTER * _longest(down) + AROUND)
        height = max(SIDE, cell * len(down) + below + AROUND)
        columns = max(1, min(count, int(WIDEST / width)))
        return cls(width, height, columns, ceil(count / columns))


def set_names(axis: "Axes", across: Sequence[str], down: Sequence[str]) -> None:
    """Write names below and beside a heat map: upright below it where they are many or long."""
    # A dollar in a name is a dollar, and no formula.
    axis.set_xticks(range(len(across)), _short(across), rotation=90 if _is_steep(across) else 20, parse_math=False)
    axis.set_yticks(range(len(down)), _short(down), parse_math=False)


def wrapped(text: str, width: float, letters: float = TITLE) -> str:
    """A text in lines that a picture of that width has room for; a letter of full width takes two."""
    wide = cell_len(text) / max(1, len(text))
    return fill(text, max(1, int(letters * width / max(1.0, wide))))


def path_text(names: Sequence[str]) -> str:
    """The domains in their order, short enough for a title."""
    short = _short(names)
    if len(short) <= NAMED:
        return " → ".join(short)
    return f"{' → '.join(short[:3])} → … → {short[-1]} ({len(names):,} domains)"


def _short(names: Sequence[str]) -> list[str]:
    return [shortened(name, LONGEST) for name in names]


def _longest(names: Sequence[str]) -> int:
    return max((cell_len(name) for name in _short(names)), default=0)


def _is_steep(names: Sequence[str]) -> bool:
    return len(names) > FLAT or _longest(names) > SLANTED
