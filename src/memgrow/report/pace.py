"""How long work takes, by what has been measured of it, and times as people say them."""

from dataclasses import dataclass

MINUTE, HOUR = 60, 3600
# Seconds and steps of a training, either pair of which tells how long all of it takes. Batches are of texts of like
# length: of the first eight of a small domain most may be long ones, and the time told was half as long again.
ENOUGH = ((1.0, 16), (3.0, 5))
WORTH_TELLING_S = 5.0  # what is over sooner need not be announced


@dataclass(frozen=True)
class Pace:
    """The moment at which work was first looked at, and how much of it had been done by then.

    What came before, as the first step of a training, which takes longer than others, is left out.
    """

    began: float
    done: float

    def each(self, now: float, done: float) -> float | None:
        """Seconds for each unit of work; None as long as too little has been seen."""
        seconds, seen = now - self.began, done - self.done
        return seconds / seen if any(seconds >= least and seen >= steps for least, steps in ENOUGH) else None


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h"
