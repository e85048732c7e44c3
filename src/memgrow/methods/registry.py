"""The methods by name. A name is a base with additions: `ewc+slots+vocab` or, in the paper's letters, `EWC+M+V`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from memgrow.errors import SettingsError, quoted
from memgrow.methods.average import Average, AverageOptions
from memgrow.methods.base import CombinedMethod, Method, check_options, keeps_rows, option
from memgrow.methods.distill import Distillation, DistillOptions
from memgrow.methods.ema import EMA, EMAOptions, JointEMA
from memgrow.methods.ewc import EWC, ModeIMM
from memgrow.methods.frozen import Frozen, Progressive
from memgrow.methods.gem import AGEM, GEM
from memgrow.methods.icarl import ICaRL
from memgrow.methods.lora import LoRA, LoRAOptions
from memgrow.methods.memory import Memory, MemoryOptions
from memgrow.methods.progress_compress import CompressOptions, ProgressCompress
from memgrow.methods.rehearsal import Rehearsal, RehearsalOptions
from memgrow.methods.ridge import Ridge, RidgeOptions
from memgrow.methods.si import SIOptions, SynapticIntelligence
from memgrow.models import CausalSettings, ModelSettings

Grows = Literal["words", "slots", "hidden", "column"]
# Chosen by the protocol in research/which_method.
RECOMMENDED = "finetune+vocab"
RECOMMENDED_FOR_ENCODERS, RECOMMENDED_FOR_REPLIES = "finetune+ema+memory", "finetune+vocab+ema"
RECOMMENDED_FOR_CAUSAL = "lora"


@dataclass(frozen=True)
class GrowthOptions:
    slots: int | None = option(None, least=1)  # for each later domain; None: as many as the model began with


@dataclass(frozen=True)
class MethodSettings(
    MemoryOptions,
    RehearsalOptions,
    RidgeOptions,
    LoRAOptions,
    EMAOptions,
    DistillOptions,
    AverageOptions,
    CompressOptions,  # and with it EWCOptions
    SIOptions,
    GrowthOptions,
):
    """The options of all methods. Each method's own are documented in its file."""

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "MethodSettings":
        """Settings that were saved; options that no longer exist are left out."""
        return cls(**{name: value for name, value in values.items() if name not in RETIRED_OPTIONS})


RETIRED_OPTIONS = ("quiet", "old_rate", "sparse_slots")
# Of models that were saved with them. They load; to learn on, they take the method without.
RETIRED = {"Q": "slots were let in slowly", "L": "old weights moved slowly", "sparse": "few old slots moved"}


@dataclass(frozen=True)
class MethodSpec:
    """What a method does when a domain arrives: what grows, which `Method` classes take part, which data is seen."""

    name: str
    about: str
    grows: tuple[Grows, ...] = ()
    parts: tuple[type[Method], ...] = ()
    joint: bool = False  # trains on the data of all domains at once: not incremental
    reinit: bool = False  # each domain gets a new model; the newest one predicts

    def create(self, options: MethodSettings) -> CombinedMethod:
        """The method of a new learner."""
        return CombinedMethod([part(options) for part in self.parts])

    @property
    def closed_form(self) -> bool:
        return any(part.closed_form for part in self.parts)

    @property
    def keeps_memory(self) -> bool:
        """Whether every domain has an entry in a domain memory."""
        return Memory in self.parts

    @property
    def keeps_labels(self) -> bool:
        """Whether labels that a new domain does not have are kept well."""
        return self.keeps_memory or self.closed_form or self.keeps_rows

    @property
    def keeps_rows(self) -> bool:
        """Whether rows of earlier domains are kept as text."""
        return any(map(keeps_rows, self.parts))

    @property
    def letters(self) -> str:
        """The name in the paper's letters: F+M+V for finetune+slots+vocab."""
        base, *additions = self.name.split("+")
        return "+".join([BASE_LETTERS.get(base, base), *(ADDITIONS[word].letter for word in additions)])

    def reads(self) -> set[str]:
        """The names of the options that this method uses."""
        names = {one.name for part in self.parts for one in fields(part.Options)}
        return names | ({"slots"} if {"slots", "hidden"} & set(self.grows) else set())

    def unread(self, options: MethodSettings, usual: MethodSettings | None = None) -> list[str]:
        """Options that were changed from the usual ones and that this method does not use."""
        names = [one.name for one in fields(options) if one.name not in self.reads()]
        return [name for name in names if getattr(options, name) != getattr(usual or MethodSettings(), name)]

    def check(self, settings: ModelSettings) -> None:
        """Refuse a model that this method does not work with."""
        if any(part.needs_encoder for part in self.parts) and not settings.is_pretrained:
            raise SettingsError(f"{self.name} needs a pretrained encoder: give one (--encoder), or use another method")
        if isinstance(settings, CausalSettings):
            if self.grows or not set(self.parts) <= CAUSAL_PARTS:
                raise SettingsError(
                    f"{self.name} does not work on a causal language model: use lora, finetune, ewc, si, imm or "
                    "rehearsal, with +ema, +average or +memory"
                )
            if self.trains_base and self.keeps_memory:
                raise SettingsError(f"{self.name}: a domain memory keeps the additions of LoRA: use lora+memory")
        lacking = [GROWN[what] for what in self.grows if what not in settings.grows]
        if lacking:
            raise SettingsError(
                f"{self.name} adds {' and '.join(lacking)}, which a pretrained encoder does not have: use another "
                "method, such as finetune, or the encoder lstm"
            )

    @property
    def trains_base(self) -> bool:
        """Whether the pretrained weights of a causal language model train, in place of low-rank additions."""
        return self.name.split("+")[0] == "finetune"

    def check_task(self, task: str, settings: ModelSettings) -> None:
        """Refuse a task that this method does not work with."""
        for part in self.parts:
            if task not in part.tasks and not isinstance(settings, CausalSettings):
                raise SettingsError(
                    f"{self.name} needs labels, and replies have none: use another method, such as finetune+vocab"
                )


CAUSAL_PARTS = {LoRA, EMA, JointEMA, Average, EWC, ModeIMM, SynapticIntelligence, Rehearsal, Memory}
GROWN = {"slots": "slots", "words": "words", "hidden": "hidden units", "column": "columns"}
BASE_LETTERS = {
    "finetune": "F",
    "progressive": "Progressive",
    "lora": "LoRA",
    "icarl": "iCaRL",
    **{name: name.upper() for name in ("ewc", "si", "imm", "gem", "a-gem")},
}


@dataclass(frozen=True)
class Addition:
    """What a word after the method's name adds to it."""

    letter: str  # the paper's, or one in its style
    about: str
    grows: Grows | None = None
    part: type[Method] | None = None


ADDITIONS = {
    "slots": Addition("M", "new memory slots", grows="slots"),
    "vocab": Addition("V", "new words", grows="words"),
    "hidden": Addition("H", "new hidden units, as many parameters as slots would add", grows="hidden"),
    "average": Addition("A", Average.about, part=Average),
    "distill": Addition("D", Distillation.about, part=Distillation),
    "ema": Addition("E", EMA.about, part=EMA),
    "memory": Addition("R", Memory.about, part=Memory),
}

_CLASSES: dict[str, tuple[type[Method], ...]] = {
    "finetune": (),
    "frozen": (Frozen,),
    "ewc": (EWC,),
    "si": (SynapticIntelligence,),
    "imm": (ModeIMM,),
    "progress-compress": (ProgressCompress,),
    "progressive": (Progressive,),
    "lora": (LoRA,),
    "ridge": (Ridge,),
    "rehearsal": (Rehearsal,),
    "a-gem": (AGEM,),
    "gem": (GEM,),
    "icarl": (ICaRL, Distillation),
}
_BASES = (
    *(
        MethodSpec(name, (parts[0] if parts else Method).about, ("column",) if Progressive in parts else (), parts)
        for name, parts in _CLASSES.items()
    ),
    MethodSpec("multi-task", "train a new model on the data of all domains at once", joint=True, reinit=True),
    MethodSpec("in-domain", "train a new model on each domain alone", reinit=True),
)
METHODS = {method.name: method for method in _BASES}
"""Methods by name. Add a `MethodSpec` to use your own; its `Options` may name fields of `MethodSettings` only."""


def find_method(name: str, retired: bool = False) -> MethodSpec:
    """The method of that name: a known one, or a known one with additions, as words or letters in any case.

    `retired` accepts names of earlier versions, for models that were saved with them.
    """
    known = {spelled.casefold(): method for spelled, method in METHODS.items()}
    known |= {letters.casefold(): METHODS[word] for word, letters in BASE_LETTERS.items() if word in METHODS}
    if (exact := known.get(name.casefold())) is not None:
        return exact
    base, *additions = name.split("+")
    if retired:
        additions = [one for one in additions if one not in RETIRED]
        base = "frozen" if base in RETIRED else base
    elif gone := next((one for one in (base, *additions) if one in RETIRED), None):
        raise SettingsError(f"{gone} no longer exists ({RETIRED[gone]}): leave it out, or use another method")
    words = {word: word for word in ADDITIONS} | {one.letter.casefold(): word for word, one in ADDITIONS.items()}
    method = known.get(base.casefold())
    if method is None or any(one.casefold() not in words for one in additions):
        raise SettingsError(
            f"there is no method {quoted(name)}; there are {', '.join(METHODS)}, "
            f"with additions: {', '.join(f'+{word} or +{one.letter}' for word, one in ADDITIONS.items())}"
        )
    for one in additions:
        method = _add(method, words[one.casefold()])
    return method


def _add(method: MethodSpec, word: str) -> MethodSpec:
    addition = ADDITIONS[word]
    part = JointEMA if addition.part is EMA and method.joint else addition.part
    if (method.reinit and part is not JointEMA) or method.closed_form or "column" in method.grows:
        raise SettingsError(f"{method.name} takes no additions: it leaves old weights as they are, or has none")
    if addition.grows in method.grows or part in method.parts:
        raise SettingsError(f"{method.name} has {word} already: name each addition once")
    grows = (*method.grows, addition.grows) if addition.grows else method.grows
    parts = (*method.parts, part) if part else method.parts
    # Hidden units grow between the old ones, so that methods cannot tell old entries of a weight by their position.
    if "hidden" in grows and ("slots" in grows or not set(parts) <= {EMA, Distillation}):
        raise SettingsError(f"{method.name}+{word}: hidden goes with finetune, vocab, ema and distill only")
    return replace(
        method,
        name=f"{method.name}+{word}",
        about=f"{method.about}; {addition.about}",
        grows=grows,
        parts=parts,
    )


# The rows of the paper's tables that have additions.
_ROWS = ("finetune", "finetune+vocab", "finetune+slots", "finetune+slots+vocab", "finetune+hidden")
METHODS = {
    **{name: find_method(name) for name in (*_ROWS, "finetune+hidden+vocab", "frozen", "frozen+slots")},
    **METHODS,
}
