"""The word vectors that a model began with: known by their content, and found where this user gave them before.

A model's folder may come from a stranger: if it named a path, whatever lies there would be read. And it may go to one,
who is not to learn how its owner's folders are called. So it has a checksum, and the user a note of where they lie.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from memgrow.errors import SettingsError
from memgrow.places import cache_folder, own_folder
from memgrow.storage import atomic_write, identity_of

VARIABLE = "MEMGROW_VECTORS"
LONGEST = 255  # letters of a file's name
SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class RememberedVectors:
    """A file of word vectors. Its path is of this process alone: a model's folder has the other two."""

    name: str  # without its folders
    sha256: str | None = None  # None of a folder that names a path, as those of earlier memgrows do: it is not taken
    path: Path | None = field(default=None, compare=False)

    @classmethod
    def given(cls, path: str | Path) -> "RememberedVectors":
        """Those of a file that the user gives; it is noted where they lie, so that later commands find them."""
        place = Path(path).absolute()
        identity = _identity(place)  # before it is read: of a file that changes meanwhile, the note is out of date
        sha256 = _read_through(place, identity)
        _note(sha256, place, identity)
        name = os.fsencode(place.name).decode(errors="replace")  # which may be in any encoding
        return cls(name, sha256, place)

    def find(self) -> Path | None:
        """Where they lie, if this user has given them and the file is as it was."""
        if self.sha256 is None:
            return None
        with suppress(OSError):
            if self.path is not None and _checksum(self.path) == self.sha256:
                return self.path
        return _noted(self.sha256)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "sha256": self.sha256}

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> "RememberedVectors | None":
        """Those that a model's configuration tells of, if it does; an error if these are not of the kind."""
        path, known = config.get("vectors"), config.get("word_vectors")
        if path is None and known is None:
            return None
        name, sha256 = (path, None) if known is None else (known["name"], known["sha256"])
        if not isinstance(name, str) or not (sha256 is None or SHA256.fullmatch(sha256)):
            raise ValueError("word vectors are known by the name of a file and its checksum")
        return cls(re.split(r"[/\\]", name)[-1][:LONGEST], sha256)


def _identity(path: Path) -> tuple[int, ...]:
    """Tells whether a file is as it was; who writes to it can put its date back, but not that of the writing."""
    found = path.stat()
    return (*identity_of(found), found.st_ctime_ns)


def _checksum(path: Path) -> str:
    return _read_through(path, _identity(path))


@lru_cache(maxsize=4)
def _read_through(path: Path, identity: tuple[int, ...]) -> str:
    """The checksum of a file; each domain of a stream asks for it, and the file may have gigabytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder() -> Path:
    return own_folder(cache_folder("vectors", VARIABLE))


def _note(sha256: str, path: Path, identity: tuple[int, ...]) -> None:
    """Keep in mind where a file lies; where there is no place to, it has to be given again for a later command."""
    with suppress(OSError, SettingsError):
        content = json.dumps({"path": str(path), "identity": identity}).encode()  # in ASCII, as a path is any bytes
        place = _folder() / f"{sha256}.json"
        if not (place.is_file() and place.read_bytes() == content):
            atomic_write(place, content)


def _noted(sha256: str) -> Path | None:
    """The file of that content which was noted last, if it is still there; unchanged, it is not read through again."""
    with suppress(OSError, SettingsError, ValueError, LookupError, TypeError):
        noted = json.loads((_folder() / f"{sha256}.json").read_bytes())
        path = Path(noted["path"])
        identity = _identity(path)
        if list(identity) == noted["identity"]:
            return path
        if _read_through(path, identity) == sha256:  # somebody has opened it to others, say, or touched it
            _note(sha256, path, identity)
            return path
    return None
