"""The methods by name: the rows of the paper's tables as rows of one table, and letters that make further ones."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal

from memgrow.errors import SettingsError
from memgrow.methods.averaging import Averaging
from memgrow.methods.distillation import Distillation
from memgrow.methods.ewc import ElasticWeights
from memgrow.methods.plugin import MethodSettings, Plugin, Plugins
from memgrow.methods.slow_old import SlowOldWeights
from memgrow.methods.trains import Trains, everything, new_slots, newest_column
from memgrow.methods.weight_ema import WeightEMA, WeightEMAFromTheFirst
from memgrow.models import Model

What = Literal["words", "slots", "hidden", "column"]
RECOMMENDED = "F+V+E"  # the best on validation after five genres without old data: see docs/paper.md
READ_BY_GROWTH: dict[What, tuple[str, ...]] = {"slots": ("slots", "quiet"), "hidden": ("slots",)}  # settings


@dataclass(frozen=True)
class Method:
    """Five answers to the arrival of a domain: what grows, what trains, what is remembered, which data, which part."""

    name: str
    about: str
    grows: tuple[What, ...] = ()
    trains: Callable[[Model | None, Model], Trains] = everything
    remembers: tuple[Callable[[MethodSettings], Plugin], ...] = ()
    together: bool = False  # sees the data of all domains at once: not incremental
    afresh: bool = False  # each domain has a new model; the newest one predicts
    quiet: float = 0.0  # how much lower the logits of new slots start, unless the settings say

    @property
    def incremental(self) -> bool:
        return not self.together

    def plugins(self, settings: MethodSettings) -> Plugins:
        """What a learner by this method remembers, nothing as yet."""
        return Plugins([kind(settings) for kind in self.remembers])

    def unread(self, settings: MethodSettings) -> list[str]:
        """Settings that were changed, and that this method does not read."""
        read = {name for part in self.plugins(settings).parts for name in part.reads}
        read |= {name for what in self.grows for name in READ_BY_GROWTH.get(what, ())}
        return [
            one.name for one in fields(settings) if one.name not in read and getattr(settings, one.name) != one.default
        ]


METHODS = {
    method.name: method
    for method in (
        Method("F", "fine-tune everything on the new domain"),
        Method("F+V", "F, and words of the new domain join the vocabulary", ("words",)),
        Method("F+M", "F, and the memory gets new slots", ("slots",)),
        Method("F+M+V", "F with new slots and new words: the paper's proposal", ("slots", "words")),
        Method("F+H", "F with new hidden units, as many parameters as F+M adds", ("hidden",)),
        Method("F+H+V", "F+H and new words", ("hidden", "words")),
        Method("frozen+M", "new slots; only they and the head train", ("slots",), trains=new_slots),
        Method("EWC", "F with a pull back on weights that mattered before", remembers=(ElasticWeights,)),
        Method(
            "Progressive",
            "a new column for each domain that reads the frozen old ones; the newest head answers",
            ("column",),
            trains=newest_column,
        ),
        Method("multi-task", "train anew on the data of all domains at once", together=True, afresh=True),
        Method("in-domain", "train anew on each domain alone", afresh=True),
    )
}


@dataclass(frozen=True)
class Letter:
    """Something that goes with other methods: F+V+A is F+V with A."""

    about: str
    grows: What | None = None
    remembers: Callable[[MethodSettings], Plugin] | None = None
    quiet: float = 0.0


LETTERS = {
    "M": Letter("new slots", grows="slots"),
    "V": Letter("new words", grows="words"),
    "A": Letter("after a domain, halfway back to the old weights", remembers=Averaging),
    "D": Letter("the old model's answers to the new texts are held on to", remembers=Distillation),
    "Q": Letter("new slots are let in slowly", quiet=5.0),
    "L": Letter("old parameters take smaller steps than new ones", remembers=SlowOldWeights),
    "E": Letter("a running mean of the weights is kept", remembers=WeightEMA),
}


def find_method(name: str) -> Method:
    """The method of that name, or of a known method's name with letters behind it; in any case of letters."""
    for known, method in METHODS.items():
        if known.lower() == name.lower():
            return method
    before, plus, letter = name.rpartition("+")
    if not plus or letter.upper() not in LETTERS:
        raise SettingsError(
            f"there is no method {name!r}; there are {', '.join(METHODS)}, "
            f"and letters that go behind them: {', '.join(LETTERS)}"
        )
    return _with(find_method(before), letter.upper())


def _with(method: Method, name: str) -> Method:
    letter = LETTERS[name]
    if method.together and name == "E" and not method.remembers:  # the one letter that old weights do not matter to
        letter = replace(letter, remembers=WeightEMAFromTheFirst)
    elif method.afresh or "column" in method.grows:
        raise SettingsError(f"{method.name} takes no further letters: it leaves old weights as they are, or has none")
    if letter.grows in method.grows or letter.remembers in method.remembers or letter.quiet == method.quiet > 0:
        raise SettingsError(f"{method.name} has {name} already: a letter stands once in a name")
    if name in ("A", "L") and "hidden" in method.grows:
        raise SettingsError(f"{name} does not go with hidden units that grow: these stand between the old ones")
    if letter.quiet and "slots" not in method.grows:
        raise SettingsError(f"{method.name} adds no slots, so that {name} has nothing to let in: put M before it")
    return replace(
        method,
        name=f"{method.name}+{name}",
        about=f"{method.about}; {letter.about}",
        grows=(*method.grows, letter.grows) if letter.grows else method.grows,
        remembers=(*method.remembers, letter.remembers) if letter.remembers else method.remembers,
        quiet=letter.quiet or method.quiet,
    )
