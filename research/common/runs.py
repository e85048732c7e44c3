"""A run: one learner's way through a stream, and the record of each of its stages."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from research.common.methods import NOTES, method_called
from research.common.replies import ReplyRecord
from research.common.settings import MethodSettings, ModelSettings, PretrainedSettings, TrainingSettings, changed

SECTIONS = ("model", "training", "options")
PARTS = ("validation", "test")

Answers = Mapping[str, Sequence[bool]]
"""By domain, whether each example was answered correctly."""


@dataclass(frozen=True)
class Run:
    """All that decides the figures of a run, except for the data itself."""

    method: str
    learns: tuple[str, ...]  # domains in their order
    seed: int = 0
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    options: MethodSettings = field(default_factory=MethodSettings)

    def upto(self, stages: int) -> "Run":
        """The run after this many domains. The first stage of most methods is that of F, and shared by their runs."""
        learns = self.learns[:stages]
        if stages == 1 and method_called(self.method).shares_first:
            return replace(self, method="F", learns=learns, model=self.model.before_slots(), options=MethodSettings())
        return replace(self, learns=learns)

    def stages(self) -> list["Run"]:
        """The run after its first domain, after its second, and so on; itself at the end.

        multi-task has one stage; the stages of in-domain are runs of one domain each.
        """
        method = method_called(self.method)
        if method.joint:
            return [self]
        if method.reinit:
            return [replace(self, learns=(name,)).upto(1) for name in self.learns]
        return [self.upto(number) for number in range(1, len(self.learns) + 1)]

    def beginning(self) -> "Run":
        """The run whose learner this one goes on from after the first domain."""
        method = method_called(self.method)
        if not method.shares_first:
            return self.upto(1)
        noted = {name: getattr(self.options, name) for name in NOTES.get(method.noting or "", ())}
        first = replace(self, learns=self.learns[:1], method=method.noting or "F")
        return replace(first, options=MethodSettings(**noted))

    def key(self, data: Mapping[str, str]) -> str:
        """A hash of the settings that are not at their defaults and of the data (`data`: fingerprints by domain)."""
        parts = {
            "method": self.method,
            "learns": self.learns,
            "seed": self.seed,
            "data": [data[name] for name in self.learns],
            **{name: _departures(getattr(self, name)) for name in SECTIONS},
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Record:
    """One stage of a run: how it went, and which examples of each domain it then got right.

    Of a model that replies with words there are `replies` instead, by part and domain.
    """

    key: str
    stage: Mapping[str, Any]  # as memgrow's history has it
    validation: Answers
    test: Answers
    run: Mapping[str, Any] = field(default_factory=dict)  # with every setting
    held_out: Mapping[str, str] = field(default_factory=dict)  # fingerprints of what it was evaluated on, and how
    replies: Mapping[str, Mapping[str, ReplyRecord]] = field(default_factory=dict)
    without_slots: Mapping[str, Answers] = field(default_factory=dict)  # by part; no longer measured

    def stands_for(self, run: Run, held_out: Mapping[str, str]) -> bool:
        """Whether it was made with these settings and evaluated on these examples."""
        if not held_out.items() <= self.held_out.items():
            return False
        now = _plain(asdict(run))
        if now["model"].get("weights") is not None:
            del now["model"]["encoder"]  # weights are known by their hash, wherever they lie
        return all(
            now[section].get(name) == value
            for section in SECTIONS
            for name, value in self.run.get(section, {}).items()
            if name in now[section]
        )

    def to_json(self) -> dict[str, Any]:
        words = {part: {name: one.to_json() for name, one in given.items()} for part, given in self.replies.items()}
        silent = {part: _packed(given) for part, given in self.without_slots.items()}
        return {
            "key": self.key,
            "stage": dict(self.stage),
            **{part: _packed(getattr(self, part)) for part in PARTS},
            "run": _plain(self.run),
            "held_out": dict(self.held_out),
            **({"replies": words} if words else {}),
            **({"without_slots": silent} if silent else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Record":
        words = {
            part: {name: ReplyRecord.from_json(one) for name, one in given.items()}
            for part, given in value.get("replies", {}).items()
        }
        silent = {part: _unpacked(given) for part, given in value.get("without_slots", {}).items()}
        return cls(
            value["key"],
            value["stage"],
            _unpacked(value["validation"]),
            _unpacked(value["test"]),
            value.get("run", {}),
            value.get("held_out", {}),
            words,
            silent,
        )


def _departures(settings: ModelSettings | TrainingSettings | MethodSettings) -> dict[str, Any]:
    """The changed settings; an encoder is known by the hash of its weights, or by name where that is not known."""
    found = changed(settings)
    if isinstance(settings, PretrainedSettings):
        found.pop("encoder", None)
        if not settings.weights:
            found |= {"cell": settings.cell, "encoder": settings.encoder}
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    """A value as JSON has it; a whole number is an int, as 1000 and 1000.0 are one setting."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _packed(answers: Answers) -> dict[str, str]:
    """By domain the count of the answers, then a hexadecimal digit for each four of them."""
    bits = {name: "".join("1" if answer else "0" for answer in some) for name, some in answers.items()}
    return {name: f"{len(some)}:{int(some or '0', 2):x}" for name, some in bits.items()}


def _unpacked(packed: Mapping[str, str]) -> dict[str, tuple[bool, ...]]:
    found = {}
    for name, some in packed.items():
        count, digits = some.split(":")
        bits = f"{int(digits, 16):b}".zfill(int(count)) if int(count) else ""
        found[name] = tuple(bit == "1" for bit in bits)
    return found
