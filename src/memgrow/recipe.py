"""Settings from a YAML file and from NAME=VALUE words, checked against what there is."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import yaml

from memgrow.errors import SettingsError
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training import TrainingSettings

SECTIONS: dict[str, type[Any]] = {"model": ModelSettings, "training": TrainingSettings, "options": MethodSettings}
SINGLE: dict[str, type[Any]] = {"method": str, "seed": int}


@dataclass(frozen=True)
class Recipe:
    """What a recipe says, and nothing of what it leaves open."""

    method: str | None = None
    seed: int | None = None
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def section(self, name: str, base: Any) -> Any:
        """The settings `base` with what the recipe says of them."""
        return dataclasses.replace(base, **self.sections.get(name, {}))


def read_recipe(path: str | Path | None, words: Iterable[str] = ()) -> Recipe:
    """A recipe file, where there is one, changed by words such as hidden=64 or model.slots=100."""
    content: dict[str, Any] = {}
    if path is not None:
        content = _read(Path(path))
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise SettingsError(f"--set {word!r} has no '=': write a name and a value, such as hidden=64")
        section, key = _place(name)
        content.setdefault(section, {})[key] = yaml.safe_load(value)
    checked = {name: _check(name, content.get(name) or {}) for name in SECTIONS}
    single = {name: _fit(name, kind, content[name]) for name, kind in SINGLE.items() if name in content}
    return Recipe(**single, sections=checked)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the recipe {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = f", line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        raise SettingsError(f"{path}{place}: this is not YAML ({getattr(error, 'problem', error)})") from error
    known = [*SINGLE, *SECTIONS]
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: a recipe has some of {', '.join(known)}; see the folder recipes")
    for name in content:
        if name not in known:
            raise SettingsError(f"{path}: {name!r} is not known; a recipe has {', '.join(known)}")
    return content


def _place(name: str) -> tuple[str, str]:
    """The section that a setting belongs to."""
    if "." in name:
        section, key = name.split(".", 1)
        if section in SECTIONS:
            return section, key
    found = [section for section, kind in SECTIONS.items() if name in _fields(kind)]
    if len(found) == 1:
        return found[0], name
    if found:
        raise SettingsError(f"{name!r} may be {' or '.join(f'{section}.{name}' for section in found)}: say which")
    every = ", ".join(f"{section}.{key}" for section, kind in SECTIONS.items() for key in _fields(kind))
    raise SettingsError(f"there is no setting {name!r}; there are {every}")


def _check(section: str, values: Any) -> dict[str, Any]:
    hints = _fields(SECTIONS[section])
    if not isinstance(values, dict):
        raise SettingsError(f"{section} must hold names and values, not {values!r}")
    for name in values:
        if name not in hints:
            raise SettingsError(f"{section} has no setting {name!r}; it has {', '.join(hints)}")
    return {name: _fit(f"{section}.{name}", hints[name], value) for name, value in values.items()}


def _fit(name: str, hint: Any, value: Any) -> Any:
    """The value if it is of the kind that the setting asks for. YAML reads 3e-4 as text: torch users write it so."""
    kinds = get_args(hint) or (hint,)
    if float in kinds and not isinstance(value, bool):
        try:
            return float(value)
        except (TypeError, ValueError):
            value = str(value)
    if type(value) not in kinds:
        asked = " or ".join("nothing" if kind is NoneType else kind.__name__ for kind in kinds)
        raise SettingsError(f"{name} must be of the kind {asked}, not {value!r}")
    return value


def _fields(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)
