"""Whether values that came out of a file are of the kinds that their annotations promise."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


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
