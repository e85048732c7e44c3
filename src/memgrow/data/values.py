"""Single values of Python, numpy, pandas or torch: which can be a text, a label, or missing."""

import math
from dataclasses import fields
from typing import Any

TYPE_NAMES: dict[type, str] = {
    int: "a number",
    float: "a number with a decimal point",
    bool: "true or false",
    str: "a string",
    tuple: "a tuple",
    list: "a list",
    dict: "an object",
}
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
    return f"missing ({value})" if is_missing(value) else TYPE_NAMES.get(type(value), f"of type {type(value).__name__}")


def lone_surrogate(text: str) -> str | None:
    """The first lone surrogate of a text as an escape (a file cannot hold it), or None."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(text[error.start]):04x}"
    return None
