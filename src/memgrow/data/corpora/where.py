"""Where corpora are kept: one folder for all of them, a folder in it for each."""

import os
from pathlib import Path

VARIABLE = "MEMGROW_DATA"


def data_folder() -> Path:
    """The folder that MEMGROW_DATA names, or else memgrow/data among the user's caches. It need not be there yet."""
    named = os.environ.get(VARIABLE)
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(named or f"{caches}/memgrow/data").expanduser()


def find_file(folder: Path, name: str, inner: str = "") -> Path | None:
    """The file plain or with .gz, in the folder or in the folder `inner` within it, as an archive may unpack to."""
    candidates = [place / called for place in (folder, folder / inner) for called in (name, f"{name}.gz")]
    return next((path for path in candidates if path.is_file()), None)
