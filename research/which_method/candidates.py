"""The candidates for a default: methods with their settings, the cheapest and simplest first in each family."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memgrow.errors import SettingsError
from research.common.runs import Run
from research.common.settings import MethodSettings, ModelSettings, TrainingSettings
from research.encoders.rows import ROWS

AUTO: Mapping[str, Any] = {"keep": "auto"}
MEAN: Mapping[str, Any] = {"smooth": "auto"}
HALF: Mapping[str, Any] = {"keep": 0.5}


@dataclass(frozen=True)
class Candidate:
    """A method and what it leaves open."""

    name: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(self, learns: Sequence[str], seed: int, model: ModelSettings, training: TrainingSettings) -> Run:
        return Run(self.method, tuple(learns), seed, model, training, MethodSettings(**self.options))


@dataclass(frozen=True)
class Family:
    """Candidates for one default. The first of two that are level wins, so their order is part of the protocol."""

    name: str
    about: str
    baseline: str  # what a default must be better than
    default: str  # the default when the protocol was written
    candidates: tuple[Candidate, ...]
    is_dialogue: bool = False
    checking_streams: int = 2  # that must be whole before the default is changed
    second_stream: str | None = None  # on which the second rule asks; nothing had been run there when it was written
    late: tuple[Candidate, ...] = ()  # candidates of the third rule, which is asked of one after another
    late_of: str | None = None  # the candidate that they mend
    third_streams: tuple[str, ...] = ()  # on which they are asked: all of them

    def called(self, names: Iterable[str]) -> list[Candidate]:
        """The candidates of these names in the order of the family; `all` are all of them."""
        every = (*self.candidates, *self.late)
        asked, known = set(names), [one.name for one in every]
        if unknown := sorted(asked - {*known, "all"}):
            raise SettingsError(f"there is no candidate {unknown[0]!r} for {self.name}; there are {', '.join(known)}")
        return [one for one in every if "all" in asked or one.name in asked]


def _of_the_study(name: str, called: str | None = None) -> Candidate:
    """A row of the study of encoders, so that its records serve here too."""
    row = ROWS[name]
    return Candidate(called or name, row.method, row.options)


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "bilstm",
            "a BiLSTM that learns its words from the data",
            "F+V",
            "F+V+E",
            (
                Candidate("F+V", "F+V"),
                Candidate("F+V+A half", "F+V+A", HALF),
                Candidate("F+V+A auto", "F+V+A", AUTO),
                Candidate("F+V+E", "F+V+E"),
                Candidate("F+V+D", "F+V+D"),
                Candidate("EWC+V", "EWC+V"),
                Candidate("F+M+V", "F+M+V"),
                Candidate("F+M+V+A auto", "F+M+V+A", AUTO),
            ),
        ),
        Family(
            "encoder",
            "a pretrained encoder",
            "F",
            "F+A auto",
            (
                _of_the_study("ridge"),
                _of_the_study("F"),
                Candidate("F+A half", "F+A", HALF),
                _of_the_study("F+A", "F+A auto"),
                _of_the_study("F+E"),
                _of_the_study("LoRA"),
                _of_the_study("LoRA+A", "LoRA+A auto"),
                _of_the_study("EWC"),
                _of_the_study("frozen+M"),
                _of_the_study("F+M+A", "F+M+A auto"),
            ),
            second_stream="five-genres",
            late=(Candidate("F+E auto", "F+E", MEAN), Candidate("F+E+A auto", "F+E+A", {**AUTO, **MEAN})),
            late_of="F+E",
            third_streams=("made-anew", "few-reviews"),
        ),
        Family(
            "replies",
            "a network that replies with words",
            "F+V",
            "F+V+E",
            (
                Candidate("F+V", "F+V"),
                Candidate("F+V+A auto", "F+V+A", AUTO),
                Candidate("F+V+E", "F+V+E"),
            ),
            is_dialogue=True,
            checking_streams=1,
        ),
    )
}


def family_called(name: str) -> Family:
    if name not in FAMILIES:
        raise SettingsError(f"there is no family {name!r}; there are {', '.join(FAMILIES)}")
    return FAMILIES[name]
