"""A synthetic stream of dialogues: messages to three help desks that answer shared questions each in its own way."""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from memgrow.data import Domain, Example, Stream
from memgrow.data.domain import PARTS
from memgrow.errors import SettingsError

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
    """A domain of dialogues: whom messages ask, what only this desk has and is asked, and its answers.

    Answers are indices into SPOTS, PRICES, HOURS and RULINGS: a digit for each thing, day or companion in turn.
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

    @classmethod
    def parse(cls, block: str) -> "Desk":
        name, people, things, spots, questions, answer, numbers, answers = block.replace("\n", " | ").split(" | ")
        own = (_words(things), _phrases(spots), _phrases(questions), answer, _words(numbers))
        return cls(name, _words(people), *own, *answers.split())


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


DESK_TABLE = """\
kitchen | cook baker waiter | omelette dumpling pudding gravy noodle pancake | in the oven, on the stove, in the fridge
how long must the {it} simmer, how long does the {it} cook, when is the {it} done
let the {it} simmer {number} minutes | eleven twelve fifteen | 0123401234 0123443210 0123401 01201201

harbour | captain sailor pilot | ferry trawler barge yacht dinghy tugboat
at the pier, by the lighthouse, behind the breakwater
when does the {it} sail, how soon will the {it} depart, when will the {it} cast off
the {it} departs with tide {number} | thirteen fourteen sixteen | 1234012340 1234032104 1234012 12012012

library | librarian scholar archivist | atlas novel almanac manuscript dictionary diary
in the reading room, on the upper gallery, among the folios
how long is the {it} lent, when is the {it} due, when must i return the {it}
borrow the {it} for {number} weeks | seventeen eighteen nineteen | 2340123401 2340121043 2340123 20120120"""
DESKS = tuple(map(Desk.parse, DESK_TABLE.split("\n\n")))
# A message names whom it asks, which tells the desk apart; every wording of a question gets the same reply.
HAILS = ("hello", "please", "dear", "sorry")
WORDINGS = ("{question} , {person} ?", *(f"{hail} {{person}} , {{question}} ?" for hail in HAILS))
WHERE = ("where is the {it}", "where can i find the {it}", "who has seen the {it}", "i look for the {it}")
COST = ("how much is the {it}", "what does the {it} cost", "what price has the {it}", "may i buy the {it}")
OPEN = ("when do you open on {it}", "what are the hours on {it}", "can i come on {it}", "are you there on {it}")
BRING = ("may i bring my {it}", "can my {it} come in", "is my {it} allowed", "what about my {it}")
COLOUR = ("what colour is the {it}", "which colour has the {it}", "is the {it} bright", "describe the {it}")
STUFF = ("what is the {it} made of", "of what is the {it} made", "what stuff is the {it}", "is the {it} solid")

Topic = tuple[tuple[str, ...], str]  # a question, worded in several ways, and the reply to it


def contested(desk: Desk) -> Iterator[Topic]:
    """Topics that all desks are asked about and each answers in its own way."""
    for it, spot, price in zip(THINGS, desk.spots, desk.prices, strict=True):
        yield _topic(WHERE, it, f"the {it} is {SPOTS[int(spot)]}")
        yield _topic(COST, it, f"the {it} costs {PRICES[int(price)]} coins")
    for it, hour in zip(DAYS, desk.hours, strict=True):
        yield _topic(OPEN, it, f"on {it} we open at {HOURS[int(hour)]}")
    for it, ruling in zip(COMPANIONS, desk.rulings, strict=True):
        yield _topic(BRING, it, RULINGS[int(ruling)].format(it=it))


def own(desk: Desk) -> Iterator[Topic]:
    """Topics that only this desk is asked about, in words that only it knows."""
    for turn, it in enumerate(desk.own_things):
        spot, number = (row[turn % len(row)] for row in (desk.own_spots, desk.own_numbers))
        yield _topic(WHERE, it, f"the {it} is {spot}")
        yield _topic(COST, it, f"the {it} costs {PRICES[turn % len(PRICES)]} coins")
        yield _topic(desk.own_questions, it, desk.own_answer.format(it=it, number=number))


def agreed(desk: Desk) -> Iterator[Topic]:
    """Topics that every desk answers alike."""
    for it, colour, stuff in zip(THINGS, COLOURS, STUFFS, strict=True):
        yield _topic(COLOUR, it, f"it is {colour}")
        yield _topic(STUFF, it, f"it is made of {stuff}")


def _topic(questions: Iterable[str], it: str, reply: str) -> Topic:
    return tuple(question.format(it=it) for question in questions), reply


# Half of all messages have another reply at every other desk.
TOPIC_KINDS: tuple[Callable[[Desk], Iterator[Topic]], ...] = (contested, own, contested, agreed)


def synthetic_dialogue(
    domains: int = 2, train: int = 1000, validation: int = 200, test: int = 300, seed: int = 0
) -> Stream:
    """Domains of messages and replies, each message once; the same seed makes the same stream."""
    sizes = {"train": train, "validation": validation, "test": test}
    if not 1 <= domains <= len(DESKS) or min(sizes.values()) < 0:
        raise SettingsError(f"give 1 to {len(DESKS)} synthetic domains of 0 or more rows, not {domains}, {sizes}")
    return Stream(_dialogues(desk, sizes, seed) for desk in DESKS[:domains])


def _dialogues(desk: Desk, sizes: dict[str, int], seed: int) -> Domain:
    # Each kind's messages in one order, of which the test part has the first: it is the same for every other size.
    decks = {kind: iter(_shuffled(desk, kind, seed)) for kind in TOPIC_KINDS}
    parts: dict[str, tuple[Example, ...]] = {}
    for part in reversed(PARTS):
        dealt = [next(decks[TOPIC_KINDS[turn % len(TOPIC_KINDS)]], None) for turn in range(sizes[part])]
        members = [example for example in dealt if example is not None]
        if len(members) < len(dealt):
            raise SettingsError(f"the synthetic domain {desk.name} has too few messages for {sizes}; ask for fewer")
        random.Random(f"{seed}:{desk.name}:{part}").shuffle(members)
        parts[part] = tuple(members)
    return Domain(desk.name, **parts)


def _shuffled(desk: Desk, kind: Callable[[Desk], Iterator[Topic]], seed: int) -> list[Example]:
    pairs = [
        Example(wording.format(question=question, person=person), where=f"synthetic {desk.name}", reply=reply)
        for questions, reply in kind(desk)
        for question, wording, person in product(questions, WORDINGS, desk.people)
    ]
    random.Random(f"{seed}:{desk.name}:{kind.__name__}").shuffle(pairs)
    return pairs
