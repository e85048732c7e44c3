"""Single values as people have them, of Python, numpy, pandas or torch: which can be a text, a label, or nothing.

A label is a name: a string, a whole number, true or false, and it is kept as the string that Python writes it as.
"""

import math
from dataclasses import fields
from typing import Any

KINDS: dict[type, str] = {
    int: "a number",
    float: "a number with a decimal point",
    bool: "true or false",
    str: "a string",
    tuple: "a tuple",
    list: "a list",
    dict: "an object",
}
MISSING = ("NAType", "NaTType")  # pandas' own, which cannot be asked whether they are equal to themselves


def plain(value: object) -> object:
    """The value as Python has it, where it is a single one of numpy or torch."""
    if getattr(value, "ndim", None) == 0 and callable(item := getattr(value, "item", None)):
        found: object = item()
        return found
    return value


def take_plain_values(settings: Any) -> None:
    """Let a frozen dataclass that is being made hold numbers as Python has them: numpy's cannot be saved as JSON."""
    for one in fields(settings):
        object.__setattr__(settings, one.name, plain(getattr(settings, one.name)))


def is_missing(value: object) -> bool:
    """Whether a value says that there is none: None, not a number, pandas' NA."""
    value = plain(value)
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in MISSING


def name_of(value: object) -> str | None:
    """The string that a label, or the name of a domain, a group or a part, is kept as; None if it can be no name."""
    value = plain(value)
    return str(value) if isinstance(value, str | int) else None  # true and false are whole numbers to Python


def kind_of(value: object) -> str:
    """What a value is, as a part of a sentence."""
    value = plain(value)
    if is_missing(value):
        return f"missing ({value})"
    return KINDS.get(type(value), f"of the type {type(value).__name__}")
