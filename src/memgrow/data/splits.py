"""The parts of a domain: what they are called, and how they are drawn so that nothing leaks from one into another.

Parts are drawn by the hash of a seed and a name, so that neither the order of the rows nor the machine decides them.
Dialogues have drawings of their own: no message, or no film, is in two parts.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memgrow.data.example import Example
from memgrow.errors import SettingsError

T = TypeVar("T")
Ranks = NDArray[np.uint64]  # (rows, 2)
RANKED = 16  # bytes of a rank: enough to tell all names apart
Blocks = tuple[tuple[Example, ...], tuple[Example, ...], tuple[Example, ...]]  # train, validation, test

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
    """Draw parts of about the sizes asked for, whole group by whole group; the order of the rows makes no difference.

    Fractions are by name, or for train, validation and test. With at least as many groups as parts none is empty.
    """
    shares = _checked(fractions)
    parts, drawn = list(shares), {part: list[T]() for part in shares}
    for example, number in zip(examples, draw_by_rank(ranks(seed, groups), shares).tolist(), strict=True):
        drawn[parts[number]].append(example)
    return {part: tuple(members) for part, members in drawn.items()}


def draw_by_rank(ranked: Ranks, shares: Mapping[str, float]) -> NDArray[np.int8]:
    """For each row the number of the part that it is drawn for; rows of one rank are a group and stay together."""
    order, group = groups_by_rank(ranked)
    sizes = np.bincount(group)
    numbers = np.array([number for number, share in enumerate(shares.values()) if share], dtype=np.int8)
    chosen = _without_empty_parts(_cut(sizes, [share for share in shares.values() if share]), sizes, len(numbers))
    part = np.empty(len(order), dtype=np.int8)
    part[order] = numbers[chosen][group]
    return part


def ranks(seed: int, names: Iterable[str]) -> Ranks:
    """The ranks of several names, by their first 16 bytes, which no two names have in common."""
    found = bytearray()
    for name in names:
        found += rank(seed, name)[:RANKED]
    return as_ranks(found)


def as_ranks(joined: bytes | bytearray) -> Ranks:
    """Ranks of 16 bytes each, one after another, as numbers in the same order."""
    return np.frombuffer(joined, dtype=">u8").reshape(-1, 2).astype(np.uint64)


def by_rank(ranked: Ranks) -> NDArray[np.int64]:
    """The numbers of all rows in the order of their ranks; those of one rank as they stand."""
    return np.lexsort((ranked[:, 1], ranked[:, 0]))  # by the last one first


def groups_by_rank(ranked: Ranks) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of all rows in the order of their ranks, and for each of these the number of its group, from 0."""
    order = by_rank(ranked)
    high, low = (half[order] for half in ranked.T)
    return order, np.cumsum(np.r_[False, (high[1:] != high[:-1]) | (low[1:] != low[:-1])][: len(order)])


def rank(seed: int, name: str) -> bytes:
    """The place of something in an order that looks random but is the same on every machine."""
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


def fair_slice(examples: Sequence[Example], limit: int | None, seed: int = 0) -> tuple[Example, ...]:
    """At most `limit` of the examples, in their old order; which ones does not depend on that order."""
    if limit is None or len(examples) <= limit:
        return tuple(examples)
    kept = by_rank(ranks(seed, ("\x1f".join(_fields(example)) for example in examples)))[:limit]
    return tuple(examples[index] for index in np.sort(kept).tolist())


def _fields(example: Example) -> tuple[str, ...]:
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


def _cut(sizes: NDArray[np.int64], shares: Sequence[float]) -> NDArray[np.int64]:
    """Lay the groups end to end and the parts beside them; a group goes to the part that its middle lies in."""
    borders = np.cumsum(np.array(shares) * sizes.sum())[:-1]
    return np.searchsorted(borders, np.cumsum(sizes) - sizes + sizes / 2)


def _without_empty_parts(chosen: NDArray[np.int64], sizes: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Give each empty part the smallest group of the part with the most, as long as any has two."""
    for part in range(parts):
        counts = np.bincount(chosen, minlength=parts)
        giver = counts.argmax()
        if not counts[part] and counts[giver] > 1:
            members = np.flatnonzero(chosen == giver)
            chosen[members[sizes[members].argmin()]] = part
    return chosen


def plain(text: str | None) -> str:
    """A text without what does not count: lower case, and one space for any white space."""
    return " ".join((text or "").casefold().split())


def exchange(example: Example) -> tuple[str, str]:
    """A message and its reply, the same for all pairs that differ in case or white space alone."""
    return plain(example.text), plain(example.reply)


def each_once(examples: Iterable[Example]) -> list[Example]:
    """The examples without those whose message and reply came before."""
    known: set[tuple[str, str]] = set()
    kept = []
    for example in examples:
        if (key := exchange(example)) not in known:
            known.add(key)
            kept.append(example)
    return kept


def without(examples: Iterable[Example], others: Iterable[Example]) -> tuple[Example, ...]:
    """The examples whose message and reply are not among the others'; those that come twice stay so."""
    known = {exchange(other) for other in others}
    return tuple(example for example in examples if exchange(example) not in known)


def draw_parts(pools: Sequence[Sequence[Example]], sizes: Sequence[int], seed: int) -> Blocks | None:
    """Draw train, validation and test of exactly these sizes, each from its pool, with no message in two of them.

    None if there are too few messages. The test part is drawn first, so that it is the same for every size of the
    others; the order of a pool does not decide what is drawn.
    """
    taken: set[str] = set()
    drawn: list[tuple[Example, ...]] = []
    for pool, size in reversed(list(zip(pools, sizes, strict=True))):
        part = _draw_messages(pool, size, seed, taken)
        if part is None:
            return None
        taken |= {plain(example.text) for example in part}
        drawn.append(part)
    test, validation, train = drawn
    return train, validation, test


def _draw_messages(
    pool: Sequence[Example], size: int, seed: int, taken: AbstractSet[str]
) -> tuple[Example, ...] | None:
    """This many examples of messages that are not taken; None if there are too few."""
    by_message: dict[str, list[int]] = {}
    for index, example in enumerate(pool):
        by_message.setdefault(plain(example.text), []).append(index)
    chosen: list[int] = []
    for message in sorted(by_message.keys() - taken, key=lambda message: rank(seed, message)):
        # Of the last message some replies may find no room; no other part has them then.
        answers = sorted(by_message[message], key=lambda index: rank(seed, plain(pool[index].reply)))
        chosen += answers[: size - len(chosen)]
        if len(chosen) == size:
            break
    return tuple(pool[index] for index in sorted(chosen)) if len(chosen) == size else None


def blocks(examples: Sequence[Example], groups: Sequence[str] | None, validation: int, test: int) -> Blocks:
    """Cut the examples as they stand into a block for training, one for validation and one for test.

    With groups, such as films, a block begins at the group's start that is nearest to where its size would have it.
    """
    ends = [len(examples) - validation - test, len(examples) - test]
    if groups is not None:
        starts = [0, *(index for index, (one, other) in enumerate(pairwise(groups), 1) if one != other), len(groups)]
        ends = [min(starts, key=lambda start: (abs(start - end), start)) for end in ends]
    first, second = ends
    return tuple(examples[:first]), tuple(examples[first:second]), tuple(examples[second:])


def sizes_told(parts: Blocks) -> str:
    """The sizes of the parts, in words."""
    return ", ".join(f"{part} {len(members):,}" for part, members in zip(PARTS, parts, strict=True))
