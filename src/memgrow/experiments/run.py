"""A run: one learner's way through a stream, and what is kept of each of its stages."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from memgrow.experiments.reply_records import ReplyRecord
from memgrow.history import Stage
from memgrow.methods import METHODS, MethodSettings, find_method
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.settings import TrainingSettings

SECTIONS = ("model", "training", "options")


@dataclass(frozen=True)
class Run:
    """All that decides the figures of a run, but for the data itself."""

    method: str
    learns: tuple[str, ...]  # domains in their order
    seed: int = 0
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    options: MethodSettings = field(default_factory=MethodSettings)

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", find_method(self.method).name)  # one run, one spelling
        object.__setattr__(self, "learns", tuple(self.learns))

    def upto(self, stages: int) -> "Run":
        """The run as it stands after this many domains.

        Most methods' ways begin with the second domain, so that their runs share the first stage. So do runs with
        different settings of slots, where the first domain has none.
        """
        method = find_method(self.method)
        learns = self.learns[:stages]
        if stages == 1 and method.shares_first:
            model = self.model.before_slots()
            return replace(self, method="F", learns=learns, model=model, options=MethodSettings())
        return replace(self, learns=learns)

    def stages(self) -> list["Run"]:
        """The run after its first domain, after its second, and so on; itself at the end.

        A method that sees all domains together has one stage, and one that starts afresh depends on no earlier one.
        """
        method = find_method(self.method)
        if method.together:
            return [self]
        if method.afresh:
            return [replace(self, learns=(name,)).upto(1) for name in self.learns]
        return [self.upto(number) for number in range(1, len(self.learns) + 1)]

    def parent(self) -> "Run | None":
        """The stage that this one goes on from.

        A method that takes note of every domain finds none in the first stage that all share. Between the two stands
        a run that nobody asks for: one domain, learnt by the plainest method with those notes.
        """
        if self.takes_notes():
            return self.upto(1)
        if find_method(self.method).together or len(self.learns) == 1:
            return None
        if len(self.learns) == 2 and (noting := _noting(self.method)):
            read = {name: getattr(self.options, name) for name in ("fisher", "fisher_examples")}
            return replace(self, method=noting, learns=self.learns[:1], options=MethodSettings(**read))
        return self.upto(len(self.learns) - 1)

    def takes_notes(self) -> bool:
        """Whether this is no stage of its own, but the notes of the first domain that some methods need."""
        return len(self.learns) == 1 and bool(_noting(self.method))

    def key(self, data: Mapping[str, str]) -> str:
        """Tells the run from every other: a hash of its settings and of its domains' data (`data`, by name).

        A setting at its default is left out, so that one which joins the settings later changes no key.
        """
        sections = {name: _departures(getattr(self, name)) for name in SECTIONS}
        parts = {
            "method": self.method,
            "learns": self.learns,
            "seed": self.seed,
            "data": [data[name] for name in self.learns],
            **sections,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Record:
    """The record of one stage: how it went, and which examples of each domain of the stream it then got right.

    A model that answers with words gets nothing right or wrong: of it there are `replies`, by part and domain.
    """

    key: str
    stage: Stage
    validation: Mapping[str, Sequence[bool]]
    test: Mapping[str, Sequence[bool]]
    run: Mapping[str, Any] = field(default_factory=dict)  # what it is the record of, every setting included
    held_out: Mapping[str, str] = field(default_factory=dict)  # fingerprints of what it was evaluated on, and how
    replies: Mapping[str, Mapping[str, ReplyRecord]] = field(default_factory=dict)
    without_slots: Mapping[str, Mapping[str, Sequence[bool]]] = field(default_factory=dict)  # by part and domain

    def stands_for(self, run: Run, held_out: Mapping[str, str]) -> bool:
        """Whether it can serve: a default may have changed since, or a domain's test examples."""
        if not held_out.items() <= self.held_out.items():
            return False
        now = _plain(asdict(run))
        if now["model"].get("weights") is not None:
            del now["model"]["encoder"]  # wherever it lies
        return all(
            now[section].get(name) == value
            for section in SECTIONS
            for name, value in self.run.get(section, {}).items()
            if name in now[section]
        )

    def to_json(self) -> dict[str, Any]:
        answers = {part: {name: _pack(a) for name, a in getattr(self, part).items()} for part in ("validation", "test")}
        about = {"run": _plain(self.run), "held_out": dict(self.held_out)}
        words = {part: {name: a.to_json() for name, a in given.items()} for part, given in self.replies.items()}
        replies = {"replies": words} if words else {}
        silent = {part: {name: _pack(a) for name, a in given.items()} for part, given in self.without_slots.items()}
        without = {"without_slots": silent} if silent else {}
        trained = {} if self.stage.trained is None else {"trained": self.stage.trained}
        stage = {**self.stage.to_json(), **trained}
        return {"key": self.key, "stage": stage, **answers, **about, **replies, **without}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Record":
        answers = {part: {name: _unpack(a) for name, a in value[part].items()} for part in ("validation", "test")}
        stage = Stage.from_json(value["stage"])
        words = {
            part: {name: ReplyRecord.from_json(a) for name, a in given.items()}
            for part, given in value.get("replies", {}).items()
        }
        about = (value.get("run", {}), value.get("held_out", {}))
        without = {
            part: {name: _unpack(a) for name, a in given.items()}
            for part, given in value.get("without_slots", {}).items()
        }
        return cls(value["key"], stage, answers["validation"], answers["test"], *about, words, without)


def _noting(name: str) -> str | None:
    """The plainest method that takes the same notes of every domain as the one of that name, if that takes any."""
    method = find_method(name)
    if not method.shares_first:  # it takes them as it learns the first domain
        return None
    kinds = [kind for kind in method.remembers if getattr(kind, "needs_every_domain", False)]
    alike = (known for known, method in METHODS.items() if list(method.remembers) == kinds)
    return next(alike, name) if kinds else None


def _departures(settings: Any) -> dict[str, Any]:
    """The settings that are not at their defaults.

    A pretrained encoder is known by its weights, wherever it lies, or by its name while nobody has looked for it.
    """
    default = type(settings)()
    differ = [one.name for one in fields(settings) if getattr(settings, one.name) != getattr(default, one.name)]
    if isinstance(settings, PretrainedSettings):
        differ = [name for name in differ if name != "encoder"] + ([] if settings.weights else ["cell", "encoder"])
    return {name: _plain(getattr(settings, name)) for name in differ}


def _plain(value: Any) -> Any:
    """A value as JSON has it; a whole number is written in one way, as 1000 and 1000.0 are one setting."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _pack(answers: Sequence[bool]) -> str:
    """The count of the answers, then a hexadecimal digit for each four of them."""
    bits = "".join("1" if answer else "0" for answer in answers)
    return f"{len(bits)}:{int(bits or '0', 2):x}"


def _unpack(packed: str) -> tuple[bool, ...]:
    count, digits = packed.split(":")
    return tuple(bit == "1" for bit in f"{int(digits, 16):b}".zfill(int(count))) if int(count) else ()
