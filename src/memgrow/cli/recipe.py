"""Settings from a YAML file and from NAME=VALUE words, checked against what there is."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from memgrow.data.vectors import detect
from memgrow.device import find_device
from memgrow.errors import SettingsError
from memgrow.methods import MethodSettings
from memgrow.models import PretrainedSettings
from memgrow.training.defaults import Defaults, defaults_for, defaults_here
from memgrow.training.settings import TrainingSettings

SECTIONS: dict[str, type[Any]] = {
    "model": PretrainedSettings,  # which has all that a recurrent model has, and more
    "training": TrainingSettings,
    "options": MethodSettings,
}
SHIPPED = {file.stem: file for file in sorted((Path(__file__).parents[1] / "recipes").glob("*.yaml"))}  # by name
SINGLE: dict[str, type[Any]] = {"method": str, "seed": int}
KINDS = {int: "a whole number", float: "a number", str: "a word", bool: "true or false", NoneType: "null"}
LARGEST = 2**31 - 1  # no size comes near, and torch ends in a riddle beyond it
LARGEST_FILE = 1 << 16  # bytes of a recipe: YAML is read by Python, slowly
SHOWN = 80  # letters of a word of the command line that an error repeats


class Loader(yaml.SafeLoader):
    """Reads YAML without aliases: no recipe needs one, and a few that stand within each other fill the memory."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            alias = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", alias.start_mark)
        return super().compose_node(parent, index)


@dataclass(frozen=True)
class Recipe:
    """The settings that a recipe names, and nothing of what it leaves open."""

    method: str | None = None
    seed: int | None = None
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_named: bool = False  # whether there is one, rather than single settings alone

    def section(self, name: str, base: Any) -> Any:
        """The settings `base` with what the recipe says of them."""
        said = self.sections.get(name, {})
        if strange := said.keys() - _hints(type(base)).keys():
            raise SettingsError(
                f"{', '.join(sorted(strange))} can be set for a pretrained encoder alone, and this model has none: "
                "give one to a new model with --encoder, or leave that out"
            )
        return dataclasses.replace(base, **said)

    def model(self, base: Any, vectors: Path | None) -> Any:
        """The model's settings, with what it says of them; words are as long as the vectors that are given for them."""
        if vectors is None or isinstance(base, PretrainedSettings):
            return self.section("model", base)
        size = detect(vectors).size
        settings = self.section("model", dataclasses.replace(base, embedding=size))
        if settings.embedding != size:
            raise SettingsError(
                f"the vectors of {vectors} have {size} numbers, but embedding is {settings.embedding}: "
                "leave embedding out, or give other vectors"
            )
        return settings

    @property
    def encoder(self) -> str | None:
        """The pretrained encoder that it names, if it names one."""
        return self.sections.get("model", {}).get("encoder")

    def defaults(self, device: str, replies: bool = False) -> Defaults:
        """What holds where it says nothing: on every machine the same, if it is a recipe or there is an encoder."""
        if self.is_named or self.encoder is not None:
            return defaults_for(self.encoder, replies)
        return defaults_here(find_device(device), replies)


def read_recipe(path: str | Path | None, words: Iterable[str] = (), encoder: str | None = None) -> Recipe:
    """A recipe, by name or file, where there is one, changed by words such as hidden=64 or model.slots=100.

    An `encoder` stands in the place of the one that the recipe names.
    """
    single, sections = _read(find_recipe(path)) if path is not None else ({}, {name: {} for name in SECTIONS})
    for word in words:
        section, name, value = _setting(word)
        sections[section][name] = value
    if encoder is not None:
        sections["model"]["encoder"] = encoder
    return Recipe(**single, sections=sections, is_named=path is not None)


def find_recipe(given: str | Path) -> Path:
    """The file of a recipe: a path, or the name of one that comes with memgrow."""
    path = Path(given)
    return path if path.is_file() else SHIPPED.get(str(given).removesuffix(".yaml"), path)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The content of a file: the single values, and the sections."""
    try:
        content = yaml.load(_text_of(path), Loader)  # a safe loader
    except SettingsError:
        raise
    except FileNotFoundError as error:
        near = get_close_matches(path.stem.lower(), SHIPPED, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise SettingsError(
            f"there is no recipe {path}: {meant}it is a file, or one of {', '.join(SHIPPED)}"
        ) from error
    except OSError as error:
        raise SettingsError(f"cannot read the recipe {path} ({error.strerror}): check the name") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        place = f", line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        raise SettingsError(f"{path}{place}: this is not YAML ({reason}); put it right") from error
    known = ", ".join((*SINGLE, *SECTIONS))
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: a recipe has some of {known}, each followed by a colon; this file has none")
    for name in content:
        if name not in SINGLE and name not in SECTIONS:
            raise SettingsError(f"{path}: {name!r} is not known; a recipe has some of {known}")
    single = {name: _fit(f"{path}: {name}", kind, content[name]) for name, kind in SINGLE.items() if name in content}
    return single, {name: _section(path, name, content.get(name)) for name in SECTIONS}


def _text_of(path: Path) -> str:
    """The text of a file, unless it is far too large for a recipe or has no end."""
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise SettingsError(f"{path} has more than {LARGEST_FILE >> 10} kB, and is no recipe: check the name")
    return content.decode()


def _section(path: Path, section: str, values: Any) -> dict[str, Any]:
    hints = _hints(SECTIONS[section])
    if values is None:  # the name of a section with nothing below it
        return {}
    if not isinstance(values, dict):
        raise SettingsError(
            f"{path}: {section} must hold names and values, such as {next(iter(hints))}, not {_short(values)}"
        )
    for name in values:
        if name not in hints:
            raise SettingsError(f"{path}: {section} has no setting {name!r}; it has {', '.join(hints)}")
    return {name: _fit(f"{path}: {section}.{name}", hints[name], value) for name, value in values.items()}


def _setting(word: str) -> tuple[str, str, Any]:
    """The section, the name and the value that NAME=VALUE or SECTION.NAME=VALUE stands for."""
    called, equals, written = word.partition("=")
    if not equals:
        raise SettingsError(f"--set {word!r} has no '=': write a name and a value, such as hidden=64")
    try:
        value = yaml.load(written, Loader)  # a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        shown = f"{word[:SHOWN]}..." if len(word) > SHOWN else word
        raise SettingsError(f"--set {shown!r} cannot be read; write one number or word after the '='") from error
    section, name = _place(called)
    return section, name, _fit(f"--set {called}", _hints(SECTIONS[section])[name], value)


def _place(called: str) -> tuple[str, str]:
    """The section that a setting belongs to, and its name there."""
    every = [(section, name) for section, kind in SECTIONS.items() for name in _hints(kind)]
    found = [(section, name) for section, name in every if called in (name, f"{section}.{name}")]
    if len(found) == 1:
        return found[0]
    if found:
        raise SettingsError(f"--set {called} may be {' or '.join(map('.'.join, found))}: say which")
    if called in SINGLE:
        raise SettingsError(f"--set knows no {called!r}: give it as --{called}")
    near = get_close_matches(called.rpartition(".")[2][:SHOWN], [name for _, name in every], n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise SettingsError(f"there is no setting {called!r}; {meant}there are {', '.join(map('.'.join, every))}")


def _hints(kind: type[Any]) -> dict[str, Any]:
    """The kind of value that each setting asks for."""
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in dataclasses.fields(kind)}


def _fit(name: str, hint: Any, value: Any) -> Any:
    """The value if it is of the kind that the setting asks for. YAML reads 3e-4 as text: torch users write it so."""
    alternatives = (hint,) if get_origin(hint) is Literal else get_args(hint) or (hint,)
    words = [word for one in alternatives if get_origin(one) is Literal for word in get_args(one)]
    kinds = [one for one in alternatives if get_origin(one) is not Literal]
    if isinstance(value, str) and value in words:
        return value
    if float in kinds and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isnan(number):
            return number
    elif type(value) in kinds:
        if type(value) is int and abs(value) > LARGEST:
            raise SettingsError(f"{name} is too large ({value}): write a number up to {LARGEST}")
        return value
    asked = " or ".join([*(KINDS[kind] for kind in kinds), *words])
    raise SettingsError(f"{name} must be {asked}, not {_short(value)}")


def _short(value: Any) -> str:
    """A value as Python writes it; of a long one the beginning."""
    return shown if len(shown := repr(value)) <= SHOWN else f"{shown[:SHOWN]}..."
