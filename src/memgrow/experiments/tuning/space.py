"""The settings that a search tries, and between which values: a table, from which each method takes what it reads."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from memgrow.errors import SettingsError
from memgrow.experiments.comparison import Settings
from memgrow.methods import Method


class Suggests(Protocol):
    """What a range asks of a trial of Optuna's."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float: ...
    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int: ...


@dataclass(frozen=True)
class Range:
    """The values that a setting may take; with `log`, each doubling is as likely as any other."""

    low: float
    high: float
    log: bool = False
    whole: bool = False  # whole numbers alone

    def suggest(self, trial: Suggests, name: str) -> float:
        if self.whole:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


FOUND = ("weights",)  # settings that are found, and not set
Space = Mapping[str, Range]
"""Ranges by the names of settings, each with its section: training.rate."""

# Of every method that trains: recurrent networks, and pretrained encoders, which move less and sooner.
RECURRENT: Space = {
    "training.rate": Range(1e-4, 1e-2, log=True),
    "training.epochs": Range(2, 20, whole=True),
}
PRETRAINED: Space = {
    "training.rate": Range(1e-5, 2e-4, log=True),
    "training.new_rate": Range(1e-4, 1e-2, log=True),
    "training.epochs": Range(1, 6, whole=True),
}
# Of methods that read these, as their plugins and what they grow say. What is not here is not searched.
OPTIONS: Space = {
    "options.slots": Range(8, 256, log=True, whole=True),
    "options.quiet": Range(0, 8),
    "options.strength": Range(1, 1e5, log=True),
    "options.keep": Range(0, 1),
    "options.distil": Range(0.1, 10, log=True),
    "options.temperature": Range(1, 5),
    "options.old_rate": Range(0.01, 1, log=True),
    "options.smooth": Range(0.9, 0.9999),
    "options.rank": Range(2, 32, log=True, whole=True),
    "options.ridge": Range(1, 1e5, log=True),
    "options.sparse_slots": Range(8, 256, log=True, whole=True),
    "options.rehearsal_share": Range(0, 0.5),
}


def space_of(method: Method, settings: Settings, only: Sequence[str] = ()) -> dict[str, Range]:
    """The ranges of what a method reads or, of these, `only` the settings named, as rate or as training.rate."""
    training = PRETRAINED if settings.model.kind.is_pretrained else RECURRENT
    read = method.reads(settings.options)
    space = {
        **({} if method.closed_form else training),
        **{name: span for name, span in OPTIONS.items() if name.partition(".")[2] in read},
    }
    if not only:
        return space
    chosen = {}
    for asked in only:
        names = [name for name in space if asked in (name, name.partition(".")[2])]
        if not names:
            raise SettingsError(f"{method.name} is not searched over {asked!r}; it can be over {', '.join(space)}")
        chosen[names[0]] = space[names[0]]
    return chosen


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """The settings with these values, by names such as training.rate, in their places."""
    for name, value in values.items():
        section, _, field = name.partition(".")
        settings = replace(settings, **{section: replace(getattr(settings, section), **{field: value})})
    return settings


def recipe_of(settings: Settings, usual: Settings, values: Mapping[str, Any], method: str) -> dict[str, Any]:
    """A recipe of the settings, with those values in their places, as YAML has it: all that is not usual, and them."""
    tuned, recipe = asdict(with_values(settings, values)), dict[str, Any](method=method)
    for section, plain in asdict(usual).items():
        differs = {
            name: value
            for name, value in tuned[section].items()
            if name not in FOUND and (value != plain.get(name) or f"{section}.{name}" in values or name == "encoder")
        }
        if differs:
            recipe[section] = differs
    return recipe
