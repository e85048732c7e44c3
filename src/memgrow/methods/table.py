"""The methods by name: the rows of the paper's tables as rows of one table, and letters that make further ones."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal

from memgrow.errors import SettingsError, quoted
from memgrow.methods.distillation import Distillation
from memgrow.methods.ewc import ElasticWeights
from memgrow.methods.lora import LowRankAdditions, needs_linear_layers
from memgrow.methods.old_weights import Averaging, SlowOldWeights
from memgrow.methods.plugin import MethodSettings, Plugin
from memgrow.methods.plugins import Plugins
from memgrow.methods.rehearsal import Rehearsal
from memgrow.methods.ridge import RidgeHead, needs_features
from memgrow.methods.sparse import SparseUpdates, needs_slots, slots_and_head
from memgrow.methods.trains import Trains, everything, newest_column, nothing, what_is_new
from memgrow.methods.weight_ema import WeightEMA, WeightEMAFromTheFirst
from memgrow.models import Model, ModelSettings

What = Literal["words", "slots", "hidden", "column"]
# What docs/which-method.md found: for labels nothing holds up as better than F+V; on a pretrained encoder F+E, where
# validation decides on the mean, is below neither F nor F+A and ends higher on opinions; for replies F+V+E is better.
RECOMMENDED, RECOMMENDED_FOR_ENCODERS, RECOMMENDED_FOR_REPLIES = "F+V", "F+E", "F+V+E"
READ_BY_GROWTH: dict[What, tuple[str, ...]] = {"slots": ("slots", "quiet"), "hidden": ("slots",)}  # settings


def any_model(settings: ModelSettings) -> str | None:
    return None


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
    closed_form: bool = False  # nothing trains, on the first domain neither: its plugins solve for weights
    needs: Callable[[ModelSettings], str | None] = any_model  # a sentence if it does not go with such a model

    @property
    def shares_first(self) -> bool:
        """Whether it learns the first domain as F does; its own ways then begin with the second."""
        return not self.together and not self.closed_form

    @property
    def incremental(self) -> bool:
        return not self.together

    @property
    def keeps_examples(self) -> bool:
        """Whether rows of earlier domains are kept, as they are: such a method is marked wherever it is named."""
        return self.plugins(MethodSettings()).keeps_examples

    def plugins(self, settings: MethodSettings) -> Plugins:
        """The plugins of a new learner by this method; they remember nothing as yet."""
        return Plugins([kind(settings) for kind in self.remembers])

    def reads(self, settings: MethodSettings) -> set[str]:
        """The settings that make a difference to this method."""
        read = {name for part in self.plugins(settings).parts for name in part.reads}
        return read | {name for what in self.grows for name in READ_BY_GROWTH.get(what, ())}

    def unread(self, settings: MethodSettings, usual: MethodSettings | None = None) -> list[str]:
        """Settings that were changed, from those that are usual, and that this method does not read."""
        usual = usual or MethodSettings()
        read = self.reads(settings)
        names = [one.name for one in fields(settings) if one.name not in read]
        return [name for name in names if getattr(settings, name) != getattr(usual, name)]


METHODS = {
    method.name: method
    for method in (
        Method("F", "fine-tune everything on the new domain"),
        Method("F+V", "F, and words of the new domain join the vocabulary", ("words",)),
        Method("F+M", "F, and the memory gets new slots", ("slots",)),
        Method("F+M+V", "F with new slots and new words: the paper's proposal", ("slots", "words")),
        Method("F+H", "F with new hidden units, as many parameters as F+M adds", ("hidden",)),
        Method("F+H+V", "F+H and new words", ("hidden", "words")),
        Method("frozen", "only the head trains", trains=what_is_new),
        Method("frozen+M", "new slots; only they and the head train", ("slots",), trains=what_is_new),
        Method("EWC", "F with a pull back on weights that mattered before", remembers=(ElasticWeights,)),
        Method(
            "Progressive",
            "a new column for each domain that reads the frozen old ones; the newest head answers",
            ("column",),
            trains=newest_column,
        ),
        Method(
            "sparse",
            "of the old slots only those train that the new domain reads more than earlier ones did; and the head",
            trains=slots_and_head,
            remembers=(SparseUpdates,),
            needs=needs_slots,
        ),
        Method(
            "LoRA",
            "low-rank additions to the pretrained encoder's weights train, and the head; then they are merged",
            trains=what_is_new,
            remembers=(LowRankAdditions,),
            needs=needs_linear_layers,
        ),
        Method(
            "ridge",
            "the pretrained encoder stays as it is; a linear head in closed form, from sums over all domains",
            trains=nothing,
            remembers=(RidgeHead,),
            closed_form=True,
            needs=needs_features,
        ),
        Method(
            "rehearsal",
            "F on the new domain and on a few rows of each earlier one: KEEPS these rows, as text, with the model",
            remembers=(Rehearsal,),
        ),
        Method("multi-task", "train anew on the data of all domains at once", together=True, afresh=True),
        Method("in-domain", "train anew on each domain alone", afresh=True),
    )
}


def goes_with_any(method: Method) -> str | None:
    return None


def needs_old_entries_first(letter: str) -> Callable[[Method], str | None]:
    """A letter that tells old entries of a parameter from new ones by their place."""

    def goes_with(method: Method) -> str | None:
        if "hidden" not in method.grows:
            return None
        return f"{letter} does not go with hidden units that grow: these stand between the old ones"

    return goes_with


def needs_no_hidden_units(method: Method) -> str | None:
    if "hidden" not in method.grows:
        return None
    return f"{method.name} adds hidden units in the place of slots, so that M has none to add: take one of them"


def needs_what_is_new(method: Method) -> str | None:
    if "slots" in method.grows:
        return None
    return f"{method.name} adds no slots, so that Q has nothing to let in: put M before it"


@dataclass(frozen=True)
class Letter:
    """Something that goes with other methods: F+V+A is F+V with A."""

    about: str
    grows: What | None = None
    remembers: Callable[[MethodSettings], Plugin] | None = None
    quiet: float = 0.0
    goes_with: Callable[[Method], str | None] = goes_with_any  # a sentence if it does not
    without_old_weights: Callable[[MethodSettings], Plugin] | None = None  # its plugin where all domains start anew
    comes_first: bool = False  # its plugin is called before others: it chooses among weights as they were trained


# F, which the names of most methods begin with, is fine-tuning; H is hidden units, which only rows of the table grow.
LETTERS = {
    "M": Letter("new slots", grows="slots", goes_with=needs_no_hidden_units),  # memory slots
    "V": Letter("new words", grows="words"),  # vocabulary
    "A": Letter(  # average with the old weights
        "after a domain, part of the way back to the old weights",
        remembers=Averaging,
        goes_with=needs_old_entries_first("A"),
    ),
    "D": Letter("the old model's answers to the new texts are held on to", remembers=Distillation),  # distillation
    "Q": Letter("new slots are let in slowly", quiet=5.0, goes_with=needs_what_is_new),  # quiet new slots
    "L": Letter(  # low rate for old weights
        "old parameters take smaller steps than new ones",
        remembers=SlowOldWeights,
        goes_with=needs_old_entries_first("L"),
    ),
    "E": Letter(  # exponential moving average of the weights
        "a running mean of the weights is kept",
        remembers=WeightEMA,
        without_old_weights=WeightEMAFromTheFirst,
        comes_first=True,
    ),
}


LONGEST_NAME = 60  # characters: all letters together are fewer


def find_method(name: str) -> Method:
    """The method of that name, or of a known method's name with letters after it; in any case of letters."""
    for known, method in METHODS.items():
        if known.lower() == name.lower():
            return method
    before, plus, letter = name.rpartition("+")
    if not plus or letter.upper() not in LETTERS or len(name) > LONGEST_NAME:
        raise SettingsError(
            f"there is no method {quoted(name)}; there are {', '.join(METHODS)}, "
            f"and letters that go after them: {', '.join(LETTERS)}"
        )
    return _with(find_method(before), letter.upper())


def _with(method: Method, name: str) -> Method:
    letter = LETTERS[name]
    if method.together and letter.without_old_weights is not None and not method.remembers:
        letter = replace(letter, remembers=letter.without_old_weights)
    elif method.afresh or method.closed_form or "column" in method.grows:
        raise SettingsError(f"{method.name} takes no further letters: it leaves old weights as they are, or has none")
    if letter.grows in method.grows or letter.remembers in method.remembers or letter.quiet == method.quiet > 0:
        raise SettingsError(f"{method.name} has {name} already: a letter stands once in a name")
    if (reason := letter.goes_with(method)) is not None:
        raise SettingsError(reason)
    own = (letter.remembers,) if letter.remembers else ()
    return replace(
        method,
        name=f"{method.name}+{name}",
        about=f"{method.about}; {letter.about}",
        grows=(*method.grows, letter.grows) if letter.grows else method.grows,
        remembers=(*own, *method.remembers) if letter.comes_first else (*method.remembers, *own),
        quiet=letter.quiet or method.quiet,
    )
