"""The tables as files: JSON that a person can read too, never half of it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memgrow.errors import DataError
from memgrow.storage import atomic_write, finite

FLAT = re.compile(r"\[\n\s*([^\[\]{}]*?)\n\s*\]")  # a list that holds no others
BREAK = re.compile(r"\s*\n\s*")


def write_figures(folder: Path, name: str, figures: Mapping[str, Any]) -> Path:
    """NAME.json in the folder, in place of an older one."""
    text = json.dumps(finite(figures), indent=1, ensure_ascii=False)
    text = FLAT.sub(lambda found: f"[{BREAK.sub(' ', found[1])}]", text)
    return atomic_write(folder / f"{name}.json", text + "\n")


def read_figures(folder: Path, name: str) -> dict[str, Any] | None:
    """What was written before, if anything was."""
    path = folder / f"{name}.json"
    try:
        figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataError(f"{path} is damaged: remove it, and run the same command again") from error
    return figures


def with_earlier_studies(figures: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The studies that an earlier command made under the same protocol stay beside those of this one."""
    if before is None or "studies" not in figures:
        return figures
    alike = ("memgrow", "protocol", "seeds", "data", "vectors")
    if any(before.get(name) != figures.get(name) for name in alike):
        return figures
    return {**figures, "studies": {**before["studies"], **figures["studies"]}}
