"""A bound on forgetting: a domain that costs too much of what is watched is learnt and not kept."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from memgrow.errors import ForgettingError, SettingsError, listed

ROUNDING = 1e-9  # accuracies are shares of a whole number of examples


def check_bound(points: float | None) -> None:
    """Refuse a bound that is none."""
    if points is not None and not points >= 0:
        raise SettingsError(f"max_forgetting is {points:g}, and it is the number of points that may be lost: 0 or more")


def guarded(tested: Iterable[str], learnt: Collection[str], coming: Collection[str]) -> list[str]:
    """The domains that a bound is for: those that were learnt before, and others that are watched but not to be learnt.

    What is still `coming` cannot be forgotten.
    """
    names = [name for name in tested if name in learnt or name not in coming]
    if learnt and not names:
        raise SettingsError(
            f"max_forgetting needs test examples of what was learnt before ({listed(learnt)}), and none are given: "
            "watch some (--watch FILE), or leave it out"
        )
    return names


@dataclass(frozen=True)
class Bound:
    """At most so many points may be lost on each domain, of the accuracy that it had before."""

    points: float
    before: Mapping[str, float]  # out of 1

    def check(self, name: str, after: Mapping[str, float]) -> None:
        """Refuse what has been learnt under that name if it lost more."""
        lost = {domain: 100 * (score - after[domain]) for domain, score in self.before.items()}
        worse = sorted((domain for domain in lost if lost[domain] > self.points + ROUNDING), key=lambda one: -lost[one])
        if not worse:
            return
        told = "; ".join(
            f"{one} falls from {100 * self.before[one]:.1f} to {100 * after[one]:.1f} ({lost[one]:.1f} points)"
            for one in worse
        )
        raise ForgettingError(
            f"{name} was learnt and not kept: {told}, and at most {self.points:g} may be lost; what was there before "
            "is unchanged. Choose a method that forgets less (`memgrow methods`), or allow more (--max-forgetting)",
            self.before,
            {domain: after[domain] for domain in self.before},
        )
