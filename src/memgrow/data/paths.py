"""The folders of a user, where there may be no home: in a container, or for an account that has none."""

import os
from pathlib import Path

from memgrow.errors import SettingsError


def expanded(path: str | Path) -> Path:
    """The path with ~ and ~NAME as the folder they stand for."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"{path}: there is no home folder; set HOME or XDG_CACHE_HOME to a folder") from error


def cache_folder(kind: str, variable: str | None = None) -> Path:
    """The folder that the variable names, or else memgrow/KIND among the user's caches. It may not exist yet."""
    named = os.environ.get(variable) if variable else None
    return expanded(named or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "memgrow", kind))
