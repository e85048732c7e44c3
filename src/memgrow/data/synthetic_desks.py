"""The words of the synthetic dialogues: three help desks that are asked the same questions and answer them otherwise.

What a desk says of a shared thing, a day or a companion stands in its row at the place of that thing, day or companion
in the shared list. No two desks agree on any of them.
"""

from dataclasses import dataclass

THINGS = ("rope", "lamp", "knife", "bucket", "kettle", "map", "towel", "basket", "ladder", "clock")
COLOURS = ("brown", "yellow", "silver", "green", "black", "white", "blue", "brown", "red", "golden")  # agreed on by all
STUFFS = ("hemp", "glass", "steel", "tin", "copper", "paper", "cotton", "straw", "wood", "brass")  # agreed on by all
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
COMPANIONS = ("dog", "cat", "parrot", "child", "friend", "horse", "guitar", "bicycle")

SPOTS = ("on the shelf", "behind the door", "under the stairs", "near the window", "in the cellar")
PRICES = ("two", "three", "four", "five", "six")
HOURS = ("seven", "eight", "nine", "ten", "noon")
RULINGS = ("yes , bring your {it}", "no , leave your {it} outside", "only if your {it} is quiet")


@dataclass(frozen=True, slots=True)
class Desk:
    """One domain: who is asked, the things that only it has, the question that only it gets, and its answers.

    Answers are places in SPOTS, PRICES, HOURS and RULINGS: a digit for each thing, day or companion in turn.
    """

    name: str
    people: tuple[str, ...]
    own_things: tuple[str, ...]
    own_spots: tuple[str, ...]
    own_questions: tuple[str, ...]
    own_answer: str
    own_numbers: tuple[str, ...]
    spots: str
    prices: str
    hours: str
    rulings: str


DESKS: tuple[Desk, ...] = (
    Desk(
        name="kitchen",
        people=("cook", "baker", "waiter"),
        own_things=("omelette", "dumpling", "pudding", "gravy", "noodle", "pancake"),
        own_spots=("in the oven", "on the stove", "in the fridge"),
        own_questions=("how long must the {it} simmer", "how long does the {it} cook", "when is the {it} done"),
        own_answer="let the {it} simmer {number} minutes",
        own_numbers=("eleven", "twelve", "fifteen"),
        spots="0123401234",
        prices="0123443210",
        hours="0123401",
        rulings="01201201",
    ),
    Desk(
        name="harbour",
        people=("captain", "sailor", "pilot"),
        own_things=("ferry", "trawler", "barge", "yacht", "dinghy", "tugboat"),
        own_spots=("at the pier", "by the lighthouse", "behind the breakwater"),
        own_questions=("when does the {it} sail", "how soon will the {it} depart", "when will the {it} cast off"),
        own_answer="the {it} departs with tide {number}",
        own_numbers=("thirteen", "fourteen", "sixteen"),
        spots="1234012340",
        prices="1234032104",
        hours="1234012",
        rulings="12012012",
    ),
    Desk(
        name="library",
        people=("librarian", "scholar", "archivist"),
        own_things=("atlas", "novel", "almanac", "manuscript", "dictionary", "diary"),
        own_spots=("in the reading room", "on the upper gallery", "among the folios"),
        own_questions=("how long is the {it} lent", "when is the {it} due", "when must i return the {it}"),
        own_answer="borrow the {it} for {number} weeks",
        own_numbers=("seventeen", "eighteen", "nineteen"),
        spots="2340123401",
        prices="2340121043",
        hours="2340123",
        rulings="20120120",
    ),
)
