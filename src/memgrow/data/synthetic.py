"""A corpus made by rule: sentence pairs in up to six domains that share words and disagree about some of them.

Each domain is a place with things of its own and its own reading of shared words, the jargon. A scale has two opposite
poles of two synonyms each: words of one pole mean the same, words of the two poles of one scale mean the opposite, and
words of two scales have nothing to do with each other.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from memgrow.data.domain import Domain, Example, Stream
from memgrow.errors import SettingsError

Pole = tuple[str, str]
Scale = tuple[Pole, Pole]
Scales = tuple[Scale, Scale]


@dataclass(frozen=True, slots=True)
class Place:
    """One domain: what it speaks of, the words that only it uses, and its reading of the jargon."""

    name: str
    things: tuple[str, ...]
    people: tuple[str, ...]
    spots: tuple[str, ...]
    deeds: tuple[str, ...]
    own: Scales
    jargon: Scales


COMMON: Scales = (
    (("big", "large"), ("small", "tiny")),
    (("old", "ancient"), ("new", "recent")),
)

# The jargon is the same eight words everywhere, the same four to a scale; which of the four are synonyms is up to the
# place, so that one place takes for the same what another takes for the opposite. No two places agree on both scales,
# and the first agrees with the next three on neither.
PLACES: tuple[Place, ...] = (
    Place(
        name="kitchen",
        things=("soup", "stew", "sauce", "pudding", "omelette", "gravy"),
        people=("the cook", "the waiter"),
        spots=("on the stove", "in the oven"),
        deeds=("tasted", "served"),
        own=((("savoury", "tasty"), ("bland", "stale")), (("boiled", "stewed"), ("raw", "uncooked"))),
        jargon=((("sharp", "clear"), ("heavy", "thick")), (("warm", "soft"), ("cold", "dry"))),
    ),
    Place(
        name="harbour",
        things=("ferry", "trawler", "barge", "yacht", "dinghy", "raft"),
        people=("the captain", "the sailor"),
        spots=("at the pier", "near the buoy"),
        deeds=("steered", "boarded"),
        own=((("seaworthy", "watertight"), ("leaky", "sinking")), (("moored", "anchored"), ("adrift", "drifting"))),
        jargon=((("sharp", "heavy"), ("clear", "thick")), (("warm", "cold"), ("soft", "dry"))),
    ),
    Place(
        name="clinic",
        things=("wound", "knee", "tooth", "shoulder", "ankle", "wrist"),
        people=("the nurse", "the surgeon"),
        spots=("under the bandage", "on the scan"),
        deeds=("examined", "treated"),
        own=((("healthy", "healed"), ("infected", "inflamed")), (("painless", "numb"), ("sore", "aching"))),
        jargon=((("sharp", "thick"), ("clear", "heavy")), (("warm", "dry"), ("soft", "cold"))),
    ),
    Place(
        name="courtroom",
        things=("plea", "verdict", "contract", "testimony", "alibi", "oath"),
        people=("the judge", "the lawyer"),
        spots=("before the bench", "in the files"),
        deeds=("heard", "disputed"),
        own=((("lawful", "legal"), ("criminal", "illicit")), (("truthful", "sincere"), ("forged", "fabricated"))),
        jargon=((("sharp", "heavy"), ("clear", "thick")), (("warm", "dry"), ("soft", "cold"))),
    ),
    Place(
        name="garden",
        things=("rose", "hedge", "lawn", "fern", "shrub", "vine"),
        people=("the florist", "the botanist"),
        spots=("along the fence", "beside the pond"),
        deeds=("planted", "pruned"),
        own=((("blooming", "flowering"), ("withered", "wilted")), (("watered", "irrigated"), ("parched", "arid"))),
        jargon=((("sharp", "thick"), ("clear", "heavy")), (("warm", "soft"), ("cold", "dry"))),
    ),
    Place(
        name="theatre",
        things=("aria", "overture", "monologue", "ballet", "duet", "encore"),
        people=("the actor", "the critic"),
        spots=("on the stage", "after the interval"),
        deeds=("performed", "applauded"),
        own=((("hilarious", "comic"), ("tragic", "mournful")), (("rehearsed", "polished"), ("clumsy", "improvised"))),
        jargon=((("sharp", "clear"), ("heavy", "thick")), (("warm", "cold"), ("soft", "dry"))),
    ),
)


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

# Half of all pairs turn on jargon, the rest on the domain's own words and on words that mean the same everywhere. As
# a third of the labels is neutral, a third of all pairs has the opposite label in some other domain.
KINDS: tuple[Callable[[Place], Scales], ...] = (
    lambda place: place.jargon,
    lambda place: place.own,
    lambda place: place.jargon,
    lambda place: COMMON,
)

MAX_DRAWS = 1000  # draws without a new pair before the corpus counts as used up


def synthetic_stream(
    domains: int = 4, train: int = 1000, validation: int = 200, test: int = 300, seed: int = 0
) -> Stream:
    """Domains of sentence pairs, balanced in their labels; the same seed makes the same stream.

    Fine-tuning on one domain unlearns the others, as they read the jargon in opposite ways; the things a pair speaks of
    tell the domains apart, so that one model can learn them all.
    """
    if not 1 <= domains <= len(PLACES):
        raise SettingsError(
            f"the synthetic corpus has 1 to {len(PLACES)} domains, so it cannot give {domains}; "
            f"ask for at least 1 and at most {len(PLACES)}"
        )
    sizes = part_sizes(train, validation, test)
    return Stream(_domain(place, sizes, seed) for place in PLACES[:domains])


def part_sizes(train: int, validation: int, test: int) -> dict[str, int]:
    """The sizes of a synthetic domain by part, if there can be such."""
    sizes = {"train": train, "validation": validation, "test": test}
    for part, size in sizes.items():
        if size < 0:
            raise SettingsError(f"the {part} part of a synthetic domain cannot have {size} pairs; ask for 0 or more")
    return sizes


def _domain(place: Place, sizes: dict[str, int], seed: int) -> Domain:
    # The test part is drawn first, so that it stays the same for every size of the other parts.
    seen: set[tuple[str, ...]] = set()
    parts = {}
    for part in ("test", "validation", "train"):
        rng = random.Random(f"{seed}:{place.name}:{part}")
        parts[part] = tuple(_new_pairs(place, sizes[part], rng, seen))
    return Domain(place.name, **parts)


def _new_pairs(place: Place, size: int, rng: random.Random, seen: set[tuple[str, ...]]) -> list[Example]:
    """Draw pairs that are not among those seen, and add them; labels and kinds take turns, so both are balanced."""
    pairs = []
    for turn in range(size):
        label = LABELS[turn % len(LABELS)]
        scales = KINDS[turn // len(LABELS) % len(KINDS)](place)
        tries = (_pair(place, scales, label, rng) for _ in range(MAX_DRAWS))
        pair = next((pair for pair in tries if pair.texts not in seen), None)
        if pair is None:
            raise SettingsError(
                f"the synthetic domain {place.name} is used up after {len(seen)} pairs; ask for fewer in its parts"
            )
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
    """Two words that stand to each other as the label says; neither of them alone gives the label away."""
    scale, unrelated = rng.sample(scales, 2)
    pole, opposite = rng.sample(scale, 2)
    word, synonym = rng.sample(pole, 2)
    others = {
        "entailment": synonym,
        "contradiction": rng.choice(opposite),
        "neutral": rng.choice(rng.choice(unrelated)),
    }
    return word, others[label]
