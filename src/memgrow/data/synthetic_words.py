"""The words of the synthetic corpus: six places, each with things of its own and its own reading of shared words.

A scale has two opposite poles of two synonyms each. Words of one pole mean the same, words of the two poles of one
scale mean the opposite, and words of two scales have nothing to do with each other.
"""

from dataclasses import dataclass

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
