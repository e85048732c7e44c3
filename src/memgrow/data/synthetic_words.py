"""The words of the synthetic corpus: six places, each with things of its own and its own way of speaking.

A scale is two opposite poles of two synonyms each. Words of one pole mean the same, words of the two poles of one
scale mean the opposite, words of two scales have nothing to do with each other.
"""

from dataclasses import dataclass

Pole = tuple[str, str]
Scale = tuple[Pole, Pole]
Scales = tuple[Scale, Scale]


@dataclass(frozen=True, slots=True)
class Place:
    """What is said in one domain: its things, people, spots and deeds, its own words, its reading of the jargon."""

    name: str
    things: tuple[str, ...]
    people: tuple[str, ...]
    spots: tuple[str, ...]
    deeds: tuple[str, ...]
    own: Scales
    jargon: Scales  # the same eight words everywhere, on other scales in each place


COMMON: Scales = (
    (("big", "large"), ("small", "tiny")),
    (("old", "ancient"), ("new", "recent")),
)

# The readings of the jargon were searched for: of all 315 ways to lay eight words on two scales these six agree
# least. Any two of them give the same label to less than a third of the pairs, and each two turn some
# entailments into contradictions.
PLACES: tuple[Place, ...] = (
    Place(
        name="kitchen",
        things=("soup", "bread", "stew", "sauce", "pudding", "roast", "omelette", "dough", "gravy", "pie"),
        people=("the cook", "the baker", "the waiter", "the butcher"),
        spots=("on the stove", "in the oven", "on the plate", "in the pan"),
        deeds=("tasted", "stirred", "served", "baked"),
        own=((("savoury", "tasty"), ("bland", "stale")), (("boiled", "stewed"), ("raw", "uncooked"))),
        jargon=((("sharp", "clear"), ("heavy", "thick")), (("warm", "soft"), ("cold", "dry"))),
    ),
    Place(
        name="harbour",
        things=("ferry", "trawler", "barge", "yacht", "tugboat", "dinghy", "schooner", "raft", "tanker", "canoe"),
        people=("the captain", "the sailor", "the docker", "the pilot"),
        spots=("at the pier", "by the lighthouse", "off the coast", "near the buoy"),
        deeds=("steered", "loaded", "boarded", "towed"),
        own=((("seaworthy", "watertight"), ("leaky", "sinking")), (("moored", "anchored"), ("adrift", "drifting"))),
        jargon=((("sharp", "heavy"), ("soft", "dry")), (("clear", "thick"), ("warm", "cold"))),
    ),
    Place(
        name="clinic",
        things=("wound", "knee", "tooth", "shoulder", "ankle", "elbow", "scar", "wrist", "spine", "thumb"),
        people=("the nurse", "the surgeon", "the dentist", "the patient"),
        spots=("under the bandage", "on the scan", "below the stitches", "in the plaster"),
        deeds=("examined", "treated", "bandaged", "cleaned"),
        own=((("healthy", "healed"), ("infected", "inflamed")), (("painless", "numb"), ("sore", "aching"))),
        jargon=((("sharp", "thick"), ("warm", "dry")), (("clear", "cold"), ("heavy", "soft"))),
    ),
    Place(
        name="courtroom",
        things=("plea", "verdict", "contract", "testimony", "appeal", "lawsuit", "alibi", "will", "claim", "oath"),
        people=("the judge", "the lawyer", "the juror", "the clerk"),
        spots=("before the bench", "in the dock", "under cross-examination", "in the files"),
        deeds=("heard", "disputed", "recorded", "weighed"),
        own=((("lawful", "legal"), ("criminal", "illicit")), (("truthful", "sincere"), ("forged", "fabricated"))),
        jargon=((("sharp", "soft"), ("heavy", "warm")), (("clear", "dry"), ("thick", "cold"))),
    ),
    Place(
        name="garden",
        things=("rose", "hedge", "lawn", "fern", "tulip", "shrub", "vine", "orchid", "willow", "lily"),
        people=("the gardener", "the neighbour", "the botanist", "the florist"),
        spots=("along the fence", "in the greenhouse", "behind the shed", "beside the pond"),
        deeds=("planted", "pruned", "fertilised", "trimmed"),
        own=((("blooming", "flowering"), ("withered", "wilted")), (("watered", "irrigated"), ("parched", "arid"))),
        jargon=((("sharp", "warm"), ("clear", "heavy")), (("thick", "dry"), ("soft", "cold"))),
    ),
    Place(
        name="theatre",
        things=("drama", "aria", "overture", "monologue", "ballet", "comedy", "duet", "musical", "prologue", "encore"),
        people=("the actor", "the director", "the critic", "the prompter"),
        spots=("on the stage", "behind the curtain", "in the spotlight", "after the interval"),
        deeds=("performed", "staged", "applauded", "reviewed"),
        own=((("hilarious", "comic"), ("tragic", "mournful")), (("rehearsed", "polished"), ("clumsy", "improvised"))),
        jargon=((("sharp", "dry"), ("clear", "warm")), (("heavy", "cold"), ("thick", "soft"))),
    ),
)
