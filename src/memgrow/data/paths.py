"""The folders of a user, where there may be no home: in a container, or for an account that has none."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from memgrow.errors import SettingsError

OWN = 0o700  # the mode of a folder that nobody else can enter


def expanded(path: str | Path) -> Path:
    """The path with ~ and ~NAME as the folder they stand for."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise SettingsError(
            f"{path}: there is no such home folder; write the whole path, or set the variable HOME"
        ) from error


def cache_folder(kind: str, variable: str | None = None) -> Path:
    """The folder that the variable names, or else memgrow/KIND among the user's caches. It may not exist yet."""
    if variable is not None and (named := os.environ.get(variable)):
        return expanded(named)
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(caches, "memgrow", kind).expanduser()
    except RuntimeError as error:
        named = f" {variable} or" if variable else ""
        raise SettingsError(
            f"there is no home folder to keep {kind} in: set the variable{named} XDG_CACHE_HOME to a folder, or HOME"
        ) from error


def own_folder(folder: Path) -> Path:
    """The same folder, made if need be, which nobody else can enter; an error if it is not ours."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(OWN)
    found = folder.lstat()  # of a link, the link itself: it may lead anywhere
    if not (stat.S_ISDIR(found.st_mode) and is_ours(found)):
        raise PermissionError(f"{folder} is not a folder of this user's own")
    if stat.S_IMODE(found.st_mode) != OWN:
        folder.chmod(OWN)
    return folder


def is_ours(found: os.stat_result) -> bool:
    """Whether a file or folder is this user's own."""
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
