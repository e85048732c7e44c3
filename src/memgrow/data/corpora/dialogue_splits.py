"""Drawing the parts of dialogues: no message, or no film, is in two parts."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

from memgrow.data.domain import PARTS, Example
from memgrow.data.splits import rank

Blocks = tuple[tuple[Example, ...], tuple[Example, ...], tuple[Example, ...]]  # train, validation, test


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
