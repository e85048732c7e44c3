"""How long work takes, by what has been measured of it, and times as people say them."""

from dataclasses import dataclass

MINUTE, HOUR = 60, 3600
ENOUGH_S, ENOUGH = 1.0, 5  # seconds and steps of a training that tell how long all of it takes
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
        if done - self.done < ENOUGH or now - self.began < ENOUGH_S:
            return None
        return (now - self.began) / (done - self.done)


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h"
