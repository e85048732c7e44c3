"""A synthetic stream of sentence pairs: domains share words and disagree about some, so that models forget."""

import random
from dataclasses import dataclass

from memgrow.data.domain import PARTS, Domain, Example, Stream
from memgrow.errors import SettingsError

Pole = tuple[str, str]
Scale = tuple[Pole, Pole]
Scales = tuple[Scale, Scale]


def _scales(words: str) -> Scales:
    """Two scales of two opposite poles of two synonyms each; words of two scales are unrelated."""
    a, b, c, d, e, f, g, h = words.split()
    return ((a, b), (c, d)), ((e, f), (g, h))


COMMON = "big large small tiny old ancient new recent"


@dataclass(frozen=True, slots=True)
class Place:
    """A domain of sentence pairs: what it speaks of, words that only it uses, and its reading of the shared jargon."""

    name: str
    things: tuple[str, ...]
    people: tuple[str, ...]
    spots: tuple[str, ...]
    deeds: tuple[str, ...]
    own: Scales
    jargon: Scales
    common: Scales

    @classmethod
    def parse(cls, block: str) -> "Place":
        name, things, people, spots, deeds, own, jargon = block.replace("\n", " | ").split(" | ")
        named = tuple(f"the {person}" for person in people.split())
        scales = (_scales(own), _scales(jargon), _scales(COMMON))
        return cls(name, tuple(things.split()), named, tuple(spots.split(", ")), tuple(deeds.split()), *scales)


# Name, things, people, spots, deeds; then its words and its jargon, as `_scales` reads them. The jargon is the same
# eight words everywhere, the same four to a scale; which of the four are synonyms is up to the place. No two places
# agree on both scales, and the first agrees with the next three on neither.
PLACE_TABLE = """\
kitchen | soup stew sauce pudding omelette gravy | cook waiter | on the stove, in the oven | tasted served
savoury tasty bland stale boiled stewed raw uncooked | sharp clear heavy thick warm soft cold dry

harbour | ferry trawler barge yacht dinghy raft | captain sailor | at the pier, near the buoy | steered boarded
seaworthy watertight leaky sinking moored anchored adrift drifting | sharp heavy clear thick warm cold soft dry

clinic | wound knee tooth shoulder ankle wrist | nurse surgeon | under the bandage, on the scan | examined treated
healthy healed infected inflamed painless numb sore aching | sharp thick clear heavy warm dry soft cold

courtroom | plea verdict contract testimony alibi oath | judge lawyer | before the bench, in the files | heard disputed
lawful legal criminal illicit truthful sincere forged fabricated | sharp heavy clear thick warm dry soft cold

garden | rose hedge lawn fern shrub vine | florist botanist | along the fence, beside the pond | planted pruned
blooming flowering withered wilted watered irrigated parched arid | sharp thick clear heavy warm soft cold dry

theatre | aria overture monologue ballet duet encore | actor critic | on the stage, after the interval
performed applauded
hilarious comic tragic mournful rehearsed polished clumsy improvised | sharp clear heavy thick warm cold soft dry"""
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
# Half of all pairs turn on jargon. As a third of the labels is neutral, a third of all pairs has the opposite label in
# some other domain.
PAIR_KINDS = ("jargon", "own", "jargon", "common")
MAX_DRAWS = 1000  # draws without a new pair before a domain counts as used up


def places() -> list[Place]:
    return [Place.parse(block) for block in PLACE_TABLE.split("\n\n")]


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
