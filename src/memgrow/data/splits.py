"""Drawing the parts of a domain by hash, so that neither the order of rows nor the machine decides them."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memgrow.data.domain import PARTS, Example
from memgrow.errors import SettingsError

T = TypeVar("T")


def draw(
    examples: Sequence[T],
    groups: Sequence[str],
    fractions: Mapping[str, float] | Sequence[float] = (0.8, 0.1, 0.1),
    seed: int = 0,
) -> dict[str, tuple[T, ...]]:
    """Draw parts of about the sizes asked for, whole group by whole group; the order of the rows is irrelevant."""
    shares = dict(fractions) if isinstance(fractions, Mapping) else dict(zip(PARTS, fractions, strict=False))
    if len(shares) != len(fractions) or min(shares.values(), default=-1.0) < 0 or abs(sum(shares.values()) - 1) > 1e-9:
        raise SettingsError(f"cannot draw parts of {fractions}; give fractions for {', '.join(PARTS)} that add up to 1")
    drawn = {part: list[T]() for part in shares}
    for example, part in zip(examples, draw_groups(groups, shares, seed), strict=True):
        drawn[part].append(example)
    return {part: tuple(members) for part, members in drawn.items()}


def draw_groups(groups: Sequence[str], shares: Mapping[str, float], seed: int = 0) -> list[str]:
    """The part that each row is drawn for; rows of one group stay together."""
    if not groups:
        return []
    counts = Counter(groups)
    ordered = sorted(counts, key=lambda name: rank(seed, name))
    sizes = np.array([counts[name] for name in ordered])
    parts = [part for part, share in shares.items() if share]
    # The groups laid end to end, the parts along them: a group goes to the part that its middle lies in.
    borders = np.cumsum(np.array([shares[part] for part in parts]) * sizes.sum())[:-1]
    chosen = _fill_empty_parts(np.searchsorted(borders, np.cumsum(sizes) - sizes + sizes / 2), sizes, len(parts))
    part_of = {name: parts[number] for name, number in zip(ordered, chosen.tolist(), strict=True)}
    return [part_of[name] for name in groups]


def _fill_empty_parts(chosen: NDArray[np.int64], sizes: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Give each empty part the smallest group of the part with most groups, as long as any has two."""
    for part in range(parts):
        counts = np.bincount(chosen, minlength=parts)
        giver = counts.argmax()
        if not counts[part] and counts[giver] > 1:
            members = np.flatnonzero(chosen == giver)
            chosen[members[sizes[members].argmin()]] = part
    return chosen


def rank(seed: int, name: str) -> bytes:
    """The place of a name in an order that looks random but is the same on every machine."""
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


def fair_slice(examples: Sequence[Example], limit: int | None, seed: int = 0) -> tuple[Example, ...]:
    """At most `limit` of the examples, in their old order; which ones does not depend on that order."""
    if limit is not None and limit < 1:
        raise SettingsError(f"a limit of {limit} leaves no examples; give 1 or more")
    if limit is None or len(examples) <= limit:
        return tuple(examples)
    kept = sorted(range(len(examples)), key=lambda index: rank(seed, "\x1f".join(_fields(examples[index]))))[:limit]
    return tuple(examples[index] for index in sorted(kept))


def _fields(example: Example) -> tuple[str, ...]:
    fields = (*example.texts, example.label or "")
    return fields if example.reply is None else (*fields, example.reply)
