"""Figures as JSON can hold them."""

from collections.abc import Mapping
from math import isfinite
from typing import Any


def finite(value: Any) -> Any:
    """The same with None for infinite numbers, which JSON has no word for."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value
