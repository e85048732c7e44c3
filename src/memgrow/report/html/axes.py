"""The axes of a panel of curves: where stages and figures stand, and a few round ticks with texts that all differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from memgrow.report.html.element import Html, element

WIDTH, HEIGHT = 280, 200
LEFT, RIGHT, TOP, BOTTOM = 34, 6, 26, 42
PADDING = 0.06  # of the range, above and below
INSET = 14  # of the first and last stage from the ends of their axis
HIGHEST = 1e9  # of a figure that has a place of its own
LEAST = 0.1  # range of figures, at least: what is nearer differs by rounding
FEWEST, MOST = 3, 8  # ticks of a logarithmic axis that are round in every power of ten
UNITS = ((1e6, 1e6, "M"), (1e4, 1e3, "k"))  # from where on a figure is told in what: there is room for few digits


@dataclass(frozen=True)
class Tick:
    """A figure that is marked on an axis, and how it is written there."""

    at: float
    text: str


@dataclass(frozen=True)
class Axes:
    """The places of stages and figures in a panel; perplexities are on a logarithmic axis."""

    stages: int
    low: float
    high: float
    ticks: tuple[Tick, ...]
    logarithmic: bool = False

    @classmethod
    def over(cls, stages: int, figures: Sequence[float], logarithmic: bool = False) -> "Axes":
        """Axes that have room for these figures; without ticks where none of them has a place."""
        known = [figure for figure in figures if figure < HIGHEST]
        low, high = min(known, default=1.0), max(known, default=2.0)
        if logarithmic:
            room = max((high / low) ** PADDING, 1.05)
            low, high = low / room, high * room
        else:
            room = (high - low) * PADDING + max(0.0, LEAST - (high - low)) / 2
            room = room if high > low else max(abs(high) * PADDING, 0.5)
            low, high = max(0.0, low - room), high + room
        ticks = (_round_ticks(low, high) if logarithmic else ()) or _even_ticks(low, high)
        return cls(stages, low, high, ticks if known else (), logarithmic)

    def x(self, stage: int) -> float:
        room = WIDTH - LEFT - RIGHT - 2 * INSET
        return LEFT + INSET + (room * stage / (self.stages - 1) if self.stages > 1 else room / 2)

    def y(self, figure: float) -> float:
        low, high, at = self.low, self.high, min(self.high, max(self.low, figure))
        share = log10(at / low) / log10(high / low) if self.logarithmic else (at - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share

    def grid(self) -> list[Html]:
        """A line across the panel for each tick, and its text."""
        parts = []
        for tick in self.ticks:
            y = self.y(tick.at)
            parts.append(element("line", x1=float(LEFT), x2=float(WIDTH - RIGHT), y1=y, y2=y, class_="grid"))
            parts.append(element("text", tick.text, x=float(LEFT - 6), y=y + 4, class_="tick end"))
        return parts


def _round_ticks(low: float, high: float) -> tuple[Tick, ...]:
    """Ones, twos and fives of powers of ten, or ones, or those of every second power; none where that is too few."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for times, every in (((1, 2, 5), 1), ((1,), 1), ((1,), 2)):
        found = [10.0**power * one for power in powers if power % every == 0 for one in times]
        shown = [at for at in found if low <= at <= high]
        if FEWEST <= len(shown) <= MOST:
            return tuple(Tick(at, _text(at, at, at)) for at in shown)
    return ()


def _even_ticks(low: float, high: float) -> tuple[Tick, ...]:
    """Two to seven multiples of a round number."""
    step = _step(high - low)
    numbers = range(ceil(low / step), floor(high / step) + 1)
    return tuple(Tick(step * number, _text(step * number, step, high)) for number in numbers)


def _step(room: float) -> float:
    """A round number that goes at most six times into a range."""
    power = 10.0 ** floor(log10(room / 4))
    return next(power * times for times in (1, 2, 5, 10) if room / (power * times) <= 6)


def _text(figure: float, step: float, highest: float) -> str:
    """A figure with as many digits as tell it from the next one, a `step` away, in the unit that suits the highest."""
    size, name = next(((size, name) for least, size, name in UNITS if highest >= least), (1.0, ""))
    digits = max(0, -floor(log10(step / size)))
    return f"{figure / size:,.{digits}f}{name}"
