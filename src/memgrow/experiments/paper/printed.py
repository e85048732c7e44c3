"""The figures that the paper prints."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def printed() -> dict[str, Any]:
    """By table, accuracy in percent; a pair is a figure and the paper's arrow. Not to be changed."""
    figures: dict[str, Any] = json.loads(files(__package__).joinpath("printed.json").read_text(encoding="utf-8"))
    return figures
