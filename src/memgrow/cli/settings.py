"""Settings from a YAML file (--recipe) and from NAME=VALUE words (--set), checked against the settings that exist."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from memgrow.data.disk import wrong_part
from memgrow.data.vectors import detect
from memgrow.errors import SettingsError, listed, quoted
from memgrow.methods import MethodSettings, find_method
from memgrow.models import PretrainedSettings
from memgrow.models.base import RECURRENT_ONLY
from memgrow.nn import LAYERS
from memgrow.nn.device import find_device
from memgrow.training.settings import Defaults, TrainingSettings, defaults_for, defaults_for_new

SECTIONS: dict[str, type[Any]] = {
    "model": PretrainedSettings,  # has the settings of recurrent models as well
    "training": TrainingSettings,
    "options": MethodSettings,
}
SINGLE: dict[str, type[Any]] = {"method": str, "seed": int}
TYPE_NAMES = {int: "a whole number", float: "a number", str: "a word", bool: "true or false", NoneType: "null"}
SYNONYMS = {"learning_rate": "rate", "lr": "rate", "batch_size": "batch", "max_length": "max_words"}
LARGEST = 2**31 - 1
MAX_RECIPE = 1 << 16  # characters
SHIPPED = {file.stem: file for file in (Path(__file__).parent / "recipes").glob("*.yaml")}


@dataclass(frozen=True)
class SettingChanges:
    """The settings that a recipe and --set name; everything else keeps its default."""

    method: str | None = None
    seed: int | None = None
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_recipe: bool = False

    def section(self, name: str, base: Any) -> Any:
        """The settings `base` with the changes of that section."""
        changes = self.sections.get(name, {})
        if unknown := changes.keys() - _types(type(base)).keys():
            raise SettingsError(
                f"{listed(sorted(unknown))} is for pretrained encoders, and this is a recurrent network: leave it out, "
                "or start a new model"
            )
        if isinstance(base, PretrainedSettings) and (unfit := changes.keys() & {*RECURRENT_ONLY, "cell"}):
            raise SettingsError(
                f"{listed(sorted(unfit))} is for recurrent networks, and this is the encoder {base.encoder}: "
                "leave it out, or start a new model with --encoder lstm"
            )
        return dataclasses.replace(base, **changes)

    def model(self, base: Any, vectors: Path | None) -> Any:
        """The model's settings; the embedding has the size of the word vectors that are given."""
        if vectors is None or isinstance(base, PretrainedSettings):
            return self.section("model", base)
        size = detect(vectors).size
        settings = self.section("model", dataclasses.replace(base, embedding=size))
        if settings.embedding != size:
            raise SettingsError(f"{vectors} has vectors of {size} numbers: leave embedding={settings.embedding} out")
        return settings

    @property
    def encoder(self) -> str | None:
        """The encoder that is asked for: a pretrained one, or the cell of a recurrent network."""
        model = self.sections.get("model", {})
        found: str | None = model.get("encoder") or model.get("cell")
        return found

    def defaults(
        self, device: str, *, methods: Iterable[str | None] = (), replies: bool = False, vectors: Path | None = None
    ) -> Defaults:
        """The defaults of a new model beneath the changes. A recipe without an encoder is of a recurrent network."""
        encoder = self.encoder or ("lstm" if vectors is not None else None)
        if self.is_recipe and (encoder is None or encoder in LAYERS):
            return defaults_for(None, replies)
        specs = [find_method(name) for name in methods if name]
        return defaults_for_new(find_device(device), encoder, methods=specs, replies=replies)


def read_settings(path: Path | None, words: Iterable[str] = (), encoder: str | None = None) -> SettingChanges:
    """Read a recipe, if there is one, and apply words such as hidden=64 or model.slots=100 to it."""
    if path is not None and not path.exists() and path.stem in SHIPPED:
        path = SHIPPED[path.stem]
    single, sections = _read_recipe(path) if path is not None else ({}, {name: {} for name in SECTIONS})
    for word in words:
        section, name, value = _parse_word(word)
        sections[section][name] = value
    if encoder is not None:
        sections["model"]["cell" if encoder in LAYERS else "encoder"] = encoder
    return SettingChanges(**single, sections=sections, is_recipe=path is not None)


def _read_recipe(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_RECIPE + 1)
        if len(text) > MAX_RECIPE:
            raise SettingsError(f"{path} is too long for a recipe: give the settings alone")
        found = yaml.safe_load(text)
    except OSError as error:
        raise SettingsError(f"cannot read the recipe {path} ({error.strerror}): check the name") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        line = f", line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        raise SettingsError(f"{path}{line}: this is not YAML: correct it") from error
    known = (*SINGLE, *SECTIONS)
    if not isinstance(found, dict) or set(found) - set(known):
        raise SettingsError(f"{path}: a recipe has some of {', '.join(known)}, each followed by a colon")
    single = {name: _check(f"{path}: {name}", kind, found[name]) for name, kind in SINGLE.items() if name in found}
    sections: dict[str, dict[str, Any]] = {}
    for section, settings in SECTIONS.items():
        values, types = found.get(section) or {}, _types(settings)
        if not isinstance(values, dict) or set(values) - set(types):
            raise SettingsError(f"{path}: {section} has settings {', '.join(types)}")
        sections[section] = {name: _check(f"{path}: {name}", types[name], value) for name, value in values.items()}
    return single, sections


def _parse_word(word: str) -> tuple[str, str, Any]:
    """Section, name and value of NAME=VALUE or SECTION.NAME=VALUE."""
    name, equals, text = word.partition("=")
    if not equals:
        raise SettingsError(f"--set {quoted(word)} has no '=': write a name and a value, such as hidden=64")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"--set {quoted(word)} cannot be read: write one number or word after the '='") from error
    every = [(section, one) for section, settings in SECTIONS.items() for one in _types(settings)]
    found = [place for place in every if name in (place[1], ".".join(place))]
    if len(found) > 1:
        raise SettingsError(f"--set {name} may be {' or '.join(map('.'.join, found))}: say which")
    if not found:
        if name in SINGLE:
            raise SettingsError(f"--set has no {name}: give it as --{name}")
        near = SYNONYMS.get(name) or next(
            iter(get_close_matches(name.rpartition(".")[2], [one for _, one in every])), ""
        )
        hint = f"did you mean {near}?" if near else f"there are {', '.join(one for _, one in every)}"
        raise SettingsError(f"there is no setting {quoted(name)}: {hint}")
    section, setting = found[0]
    return section, setting, _check(f"--set {name}", _types(SECTIONS[section])[setting], value)


def _types(settings: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(settings)
    return {one.name: hints[one.name] for one in dataclasses.fields(settings)}


def _check(name: str, hint: Any, value: Any) -> Any:
    """The value, if it is of the type that the setting has. YAML reads 3e-4 as text, and it is accepted as a number."""
    alternatives = (hint,) if get_origin(hint) is Literal else get_args(hint) or (hint,)
    if float in alternatives and isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            value = float(value)
    is_number = not isinstance(value, float) or not math.isnan(value)
    is_small = not isinstance(value, int) or abs(value) <= LARGEST
    if is_number and is_small and wrong_part(value, hint, name) is None:
        return value
    expected = " or ".join(TYPE_NAMES.get(one) or " or ".join(get_args(one)) for one in alternatives)
    raise SettingsError(f"{name} must be {expected}, not {quoted(value)}")
