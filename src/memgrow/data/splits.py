"""The parts of a domain: what they are called, and how they are drawn so that no group is on two sides."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from memgrow.data.domain import Example
from memgrow.errors import SettingsError

T = TypeVar("T")

PARTS = ("train", "validation", "test")
PART_NAMES = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
}


def draw(
    examples: Sequence[T],
    groups: Sequence[str],
    fractions: Mapping[str, float] | Sequence[float] = (0.8, 0.1, 0.1),
    seed: int = 0,
) -> dict[str, tuple[T, ...]]:
    """Parts of about the sizes asked for, whole group by whole group; the order of the rows makes no difference.

    Fractions are by name, or for train, validation and test. With at least as many groups as parts none is empty.
    """
    shares = _checked(fractions)
    sizes = Counter(groups)
    order = sorted(sizes, key=lambda group: rank(seed, group))
    chosen = _without_empty_parts(_cut(order, sizes, {part: share for part, share in shares.items() if share}), sizes)
    part_of = {group: part for part, members in chosen.items() for group in members}
    drawn: dict[str, list[T]] = {part: [] for part in shares}
    for example, group in zip(examples, groups, strict=True):
        drawn[part_of[group]].append(example)
    return {part: tuple(members) for part, members in drawn.items()}


def rank(seed: int, name: str) -> bytes:
    """Where something comes in an order that looks random but is the same on every machine."""
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


def fair_slice(examples: Sequence[Example], limit: int | None, seed: int = 0) -> tuple[Example, ...]:
    """At most so many of the examples, in their old order; which ones does not depend on that order."""
    if limit is None or len(examples) <= limit:
        return tuple(examples)
    ranks = [rank(seed, "\x1f".join(_spelt_out(example))) for example in examples]
    kept = sorted(range(len(examples)), key=ranks.__getitem__)[:limit]
    return tuple(examples[index] for index in sorted(kept))


def _spelt_out(example: Example) -> tuple[str, ...]:
    fields = (*example.texts, example.label or "")
    return fields if example.reply is None else (*fields, example.reply)


def _checked(fractions: Mapping[str, float] | Sequence[float]) -> dict[str, float]:
    shares = dict(fractions) if isinstance(fractions, Mapping) else dict(zip(PARTS, fractions, strict=False))
    if len(shares) != len(fractions) or min(shares.values(), default=-1.0) < 0 or abs(sum(shares.values()) - 1) > 1e-9:
        raise SettingsError(
            f"the parts {fractions} cannot be drawn; give at most one fraction for each of {', '.join(PARTS)}, "
            "none below 0, that add up to 1"
        )
    return shares


def _cut(order: Sequence[str], sizes: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, list[str]]:
    """Lay the groups end to end and the parts beside them; a group goes to the part that its middle lies in."""
    total = sum(sizes.values())
    parts = list(shares)
    chosen: dict[str, list[str]] = {part: [] for part in parts}
    at, current, border = 0, 0, shares[parts[0]] * total
    for group in order:
        while at + sizes[group] / 2 > border and current + 1 < len(parts):
            current += 1
            border += shares[parts[current]] * total
        chosen[parts[current]].append(group)
        at += sizes[group]
    return chosen


def _without_empty_parts(chosen: dict[str, list[str]], sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Give each empty part the smallest group of the part with the most, as long as any has two."""
    for members in chosen.values():
        giver = max(chosen.values(), key=len)
        if not members and len(giver) > 1:
            smallest = min(giver, key=lambda group: sizes[group])
            giver.remove(smallest)
            members.append(smallest)
    return chosen
