"""A synthetic stream of sentence pairs: domains share words and disagree about some, so that models forget."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memgrow.data.domain import PARTS, Domain, Example, Stream
from memgrow.errors import SettingsError

Scales = Sequence[Sequence[Sequence[str]]]
WORDS: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
PREMISES, HYPOTHESES = WORDS["premises"], WORDS["hypotheses"]
LABELS = ("entailment", "neutral", "contradiction")
# Half of all pairs turn on jargon. As a third of the labels is neutral, a third of all pairs has the opposite label in
# some other domain.
PAIR_KINDS = ("jargon", "own", "jargon", "common")
MAX_DRAWS = 1000  # draws without a new pair before a domain counts as used up


@dataclass(frozen=True)
class Place:
    """A domain of sentence pairs: what it speaks of, words that only it uses, and its reading of the shared jargon."""

    name: str
    things: Sequence[str]
    people: Sequence[str]
    spots: Sequence[str]
    deeds: Sequence[str]
    own: Scales
    jargon: Scales
    common: Scales


def places() -> list[Place]:
    return [Place(**row, common=WORDS["common"]) for row in WORDS["places"]]


def synthetic_stream(
    domains: int = 4, train: int = 1000, validation: int = 200, test: int = 300, seed: int = 0
) -> Stream:
    """Domains of sentence pairs, balanced in their labels; the same seed makes the same stream."""
    known, sizes = places(), {"train": train, "validation": validation, "test": test}
    if not 1 <= domains <= len(known) or min(sizes.values()) < 0:
        raise SettingsError(f"give 1 to {len(known)} synthetic domains of 0 or more rows, not {domains}, {sizes}")
    return Stream(_pairs(place, sizes, seed) for place in known[:domains])


def _pairs(place: Place, sizes: dict[str, int], seed: int) -> Domain:
    # The test part is drawn first, so that it stays the same for every size of the other parts.
    seen: set[tuple[str, ...]] = set()
    parts = {}
    for part in reversed(PARTS):
        rng = random.Random(f"{seed}:{place.name}:{part}")
        parts[part] = tuple(_new_pairs(place, sizes[part], rng, seen))
    return Domain(place.name, **parts)


def _new_pairs(place: Place, size: int, rng: random.Random, seen: set[tuple[str, ...]]) -> list[Example]:
    """Draw pairs that are not among those seen; labels and kinds take turns, so both are balanced."""
    pairs = []
    for turn in range(size):
        label = LABELS[turn % len(LABELS)]
        scales = getattr(place, PAIR_KINDS[turn // len(LABELS) % len(PAIR_KINDS)])
        tries = (_pair(place, scales, label, rng) for _ in range(MAX_DRAWS))
        pair = next((pair for pair in tries if pair.texts not in seen), None)
        if pair is None:
            raise SettingsError(f"the synthetic domain {place.name} is used up after {len(seen)} pairs; ask for fewer")
        seen.add(pair.texts)
        pairs.append(pair)
    rng.shuffle(pairs)
    return pairs


def _pair(place: Place, scales: Scales, label: str, rng: random.Random) -> Example:
    thing = rng.choice(place.things)
    word, other = _related_words(scales, label, rng)
    premise, hypothesis = (
        rng.choice(templates).format(
            thing=thing,
            word=said,
            person=rng.choice(place.people),
            spot=rng.choice(place.spots),
            deed=rng.choice(place.deeds),
        )
        for templates, said in ((PREMISES, word), (HYPOTHESES, other))
    )
    return Example(premise, hypothesis, label, where=f"synthetic {place.name}")


def _related_words(scales: Scales, label: str, rng: random.Random) -> tuple[str, str]:
    """Two words that are related as the label says; neither of them alone gives the label away."""
    scale, unrelated = rng.sample(scales, 2)
    pole, opposite = rng.sample(scale, 2)
    word, synonym = rng.sample(pole, 2)
    others = {
        "entailment": synonym,
        "contradiction": rng.choice(opposite),
        "neutral": rng.choice(rng.choice(unrelated)),
    }
    return word, others[label]
