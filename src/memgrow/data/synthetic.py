"""A corpus made by rule: sentence pairs in up to six domains that share words and disagree about some of them."""

import random
from collections.abc import Callable, Iterator

from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.synthetic_words import COMMON, PLACES, Place, Scales
from memgrow.errors import SettingsError

LABELS = ("entailment", "neutral", "contradiction")

PREMISES = (
    "the {thing} {spot} was {word}",
    "{person} {deed} the {word} {thing}",
    "{person} said that the {thing} was {word}",
    "a {word} {thing} was {deed} {spot}",
    "{person} {deed} the {thing} {spot} and found it {word}",
    "it was {word} , the {thing} that {person} {deed}",
)
HYPOTHESES = (
    "the {thing} was {word}",
    "{person} thought the {thing} was {word}",
    "it was a {word} {thing}",
    "there was a {word} {thing} {spot}",
    "the {thing} seemed {word} to {person}",
)

# Of ten examples four turn on a word that the domains disagree about, three on the domain's own words, and three on
# words that mean the same everywhere.
KINDS: tuple[Callable[[Place], Scales], ...] = (
    *[lambda place: place.jargon] * 4,
    *[lambda place: place.own] * 3,
    *[lambda place: COMMON] * 3,
)
PATIENCE = 1000  # draws without anything new before a corpus counts as used up


def synthetic_stream(
    domains: int = 4, train: int = 1000, validation: int = 200, test: int = 300, seed: int = 0
) -> Stream:
    """Domains of sentence pairs, balanced in their labels; the same seed makes the same stream.

    Fine-tuning on the next domain unlearns the last, since the two read some words in opposite ways; the things that a
    pair speaks of tell the domains apart, so that one model can learn all of them.
    """
    if not 1 <= domains <= len(PLACES):
        raise SettingsError(
            f"the synthetic corpus has 1 to {len(PLACES)} domains, but {domains} were asked for; ask for fewer"
        )
    for part, size in (("train", train), ("validation", validation), ("test", test)):
        if size < 0:
            raise SettingsError(f"the {part} part cannot have {size} examples; ask for 0 or more")
    return Stream(_domain(place, train, validation, test, seed) for place in PLACES[:domains])


def _domain(place: Place, train: int, validation: int, test: int, seed: int) -> Domain:
    # The test part is drawn first, so that it stays the same while a user tries several sizes of the training part.
    seen: set[tuple[str, ...]] = set()
    parts: dict[str, tuple[Example, ...]] = {}
    for part, size in (("test", test), ("validation", validation), ("train", train)):
        rng = random.Random(f"{seed}:{place.name}:{part}")
        parts[part] = tuple(_fresh_pairs(place, size, rng, seen))
    return Domain(place.name, **parts)


def _fresh_pairs(place: Place, size: int, rng: random.Random, seen: set[tuple[str, ...]]) -> list[Example]:
    """As many pairs as asked for that are not among those seen, which they join; labels and kinds take turns."""
    pairs = []
    for turn in range(size):
        label = LABELS[turn % len(LABELS)]
        scales = KINDS[turn // len(LABELS) % len(KINDS)](place)
        drawn = (_pair(place, scales, label, rng) for _ in range(PATIENCE))
        example = next((pair for pair in drawn if pair.texts not in seen), None)
        if example is None:
            raise SettingsError(f"the synthetic corpus has no {size} pairs for one part of {place.name}; ask for fewer")
        seen.add(example.texts)
        pairs.append(example)
    rng.shuffle(pairs)
    return pairs


def _pair(place: Place, scales: Scales, label: str, rng: random.Random) -> Example:
    word, other = _related_words(scales, label, rng)
    thing = rng.choice(place.things)  # both sentences speak of the same thing
    premise, hypothesis = (
        template.format(
            thing=thing,
            word=said,
            person=rng.choice(place.people),
            spot=rng.choice(place.spots),
            deed=rng.choice(place.deeds),
        )
        for template, said in ((rng.choice(PREMISES), word), (rng.choice(HYPOTHESES), other))
    )
    return Example(premise, hypothesis, label, where=f"synthetic {place.name}")


def _related_words(scales: Scales, label: str, rng: random.Random) -> tuple[str, str]:
    """Two words that stand to each other as the label says; each word is equally likely with every label."""
    scale, unrelated = rng.sample(scales, 2)
    pole, opposite = rng.sample(scale, 2)
    word, synonym = rng.sample(pole, 2)
    other = {
        "entailment": synonym,
        "contradiction": rng.choice(opposite),
        "neutral": rng.choice(rng.choice(unrelated)),
    }
    return word, other[label]


def relations(scales: Scales) -> Iterator[tuple[str, str, str]]:
    """Every pair of different words of the scales with its label: the rule that a model has to find."""
    where = {word: (i, j) for i, scale in enumerate(scales) for j, pole in enumerate(scale) for word in pole}
    for word, (scale, pole) in where.items():
        for other, (other_scale, other_pole) in where.items():
            if word != other:
                same = "entailment" if pole == other_pole else "contradiction"
                yield word, other, same if scale == other_scale else "neutral"
