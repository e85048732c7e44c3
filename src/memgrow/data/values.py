"""Single values: which can be a text, a label, or missing, and whether those of a file have their annotated types."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

MISSING_TYPES = ("NAType", "NaTType")  # of pandas; they do not compare equal to themselves


def plain(value: object) -> object:
    """A scalar of numpy or torch as Python's own; anything else as it is."""
    if getattr(value, "ndim", None) == 0 and callable(item := getattr(value, "item", None)):
        found: object = item()
        return found
    return value


def take_plain_values(settings: Any) -> None:
    """Convert numpy scalars in a frozen dataclass under construction: they cannot be saved as JSON."""
    for one in fields(settings):
        object.__setattr__(settings, one.name, plain(getattr(settings, one.name)))


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN or pandas' NA."""
    value = plain(value)
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in MISSING_TYPES


def name_of(value: object) -> str | None:
    """A label, or the name of a domain, group or part, as a string; None for other types than string, int and bool."""
    value = plain(value)
    return str(value) if isinstance(value, str | int) else None


def kind_of(value: object) -> str:
    """The type of a value, for error messages."""
    value = plain(value)
    return f"missing ({value})" if is_missing(value) else f"of type {type(value).__name__}"


def lone_surrogate(text: str) -> str | None:
    """The first lone surrogate of a text as an escape (a file cannot hold it), or None."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(text[error.start]):04x}"
    return None


def wrong_part(value: object, hint: Any, name: str) -> str | None:
    """The name of the first part of a value that is not what the hint says; None if all of it is."""
    origin, kinds = get_origin(hint), get_args(hint)
    if hint is Any:
        return None
    if origin in (Union, UnionType):
        return None if any(wrong_part(value, kind, name) is None for kind in kinds) else name
    if origin is Literal:
        return None if value in kinds else name
    if is_dataclass(hint) or origin in (tuple, list) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        if not isinstance(value, origin or hint):
            return name
        parts = (wrong_part(part, kind, f"{name}.{called}") for called, part, kind in _parts(value, hint, kinds))
        return next((wrong for wrong in parts if wrong is not None), None)
    if hint in (int, float):
        return None if isinstance(value, int if hint is int else int | float) and not isinstance(value, bool) else name
    return None if isinstance(value, hint) else name


def _parts(value: Any, hint: Any, kinds: tuple[Any, ...]) -> Iterator[tuple[object, object, Any]]:
    """Each part of a dataclass, a sequence or a mapping: what it is called, itself, and its hint."""
    if is_dataclass(value):
        for name, kind in _hints(hint).items():
            yield name, getattr(value, name), kind
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield key, key, kinds[0]
            yield key, part, kinds[1]
    else:
        for number, part in enumerate(value):
            yield number, part, kinds[0]


@lru_cache(maxsize=64)
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind)}
