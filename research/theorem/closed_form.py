"""Theorem 1 in closed form: how far one step's states move when slots are added, and when hidden units are.

With W (D, d) the weights that read the memory's content c or the new units, and every entry of variance sigma^2:

    hidden units   E|h' - h|^2 = E|W h~|^2 = D d sigma^4
    slots          E|h' - h|^2 = E|W (c' - c)|^2 = D d sigma^4 E[shift],   shift = sum of beta_j^2

where beta_j is what slot j's weight changes by. If the new slots take the share p of all attention, the old ones lose
it in proportion, so that c' - c = p (what the new slots say - what the old ones said). With 1/A and 1/B the sums of
squared weights among the old slots and among the new ones (A and B are how many slots are in effect read)

    shift = p^2 (1/A + 1/B)

The theorem asks for shift <= 1 and assumes p <= 1/2, which gives shift <= 1/2: more than it needs. Since A and B are at
least 1, shift <= 1 for every p <= 1/sqrt(2); and if 1/A + 1/B <= 1, for every p whatsoever.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ALWAYS_SAFE = 1 + math.sqrt(2)  # new attention over old: up to here the bound holds for every attention
FAIR_SHARE = 0.5  # of all attention: what the theorem's assumption grants the new slots
ROUNDING = 1e-6  # equal slots get a half each but for the last bit, and a half is allowed


@dataclass(frozen=True)
class Sizes:
    """The sizes that the theorem speaks of, with its letters."""

    hidden: int = 50  # D
    slot_size: int = 50  # d, also the number of new hidden units
    old: int = 50  # N
    new: int = 50  # M
    sigma: float = 0.3

    def state_change(self) -> float:
        """E|h' - h|^2 when hidden units are added; times the expected shift, when slots are."""
        return self.hidden * self.slot_size * self.sigma**4


def changes(old: Array, new: Array) -> Array:
    """The betas (..., N + M): what each slot's weight changes by, from unnormalised weights of old and new slots."""
    share = share_of_new(old, new)[..., None]
    lost = -share * old / old.sum(-1, keepdims=True)
    return np.concatenate((lost, share * new / new.sum(-1, keepdims=True)), axis=-1)


def share_of_new(old: Array, new: Array) -> Array:
    """The share of attention that the new slots take (...)."""
    given = new.sum(-1)
    return np.asarray(given / (old.sum(-1) + given))


def shift(share: float, old_read: float, new_read: float) -> float:
    """The sum of squared betas where in effect this many old slots, and this many new ones, are read."""
    return share**2 * (1 / old_read + 1 / new_read)


def breaking_ratio(old_read: float, new_read: float) -> float:
    """New attention over old, above which slots move the states further than units do; infinite if none does."""
    share = 1 / math.sqrt(1 / old_read + 1 / new_read)
    return share / (1 - share) if share < 1 else math.inf


def assumption_holds(share: Any) -> Any:
    """Whether the new slots get no more attention than the old ones; for a number, an array or a tensor of shares."""
    return share <= FAIR_SHARE + ROUNDING


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error."""

    mean: float
    error: float
    samples: int

    @classmethod
    def of(cls, values: Any) -> "Estimate | None":
        """None of no values; an error of 0 of a single one."""
        values = np.asarray(values, dtype=np.float64)
        count = len(values)
        if not count:
            return None
        return cls(float(values.mean()), float(values.std(ddof=1) / math.sqrt(count)) if count > 1 else 0.0, count)


def derive(seed: int, *path: object) -> int:
    """A seed for one purpose: the same path always gives the same."""
    digest = hashlib.sha256("/".join(map(str, (seed, *path))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # torch takes 63 bits
