"""One version of a model on disk: files that never change, and their checksums."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from memgrow.data.disk import (
    TENSORS,
    Shapes,
    atomic_write,
    check_regular,
    load_tensors,
    pack_json,
    read_bytes,
    read_json,
    sha256_of,
    stored_shapes,
    sync_file,
    sync_folder,
)
from memgrow.errors import ModelError

CHECKSUMS = "checksums.json"
SHA256 = re.compile("[0-9a-f]{64}")


class VersionFolder:
    """The folder of a version."""

    def __init__(self, path: Path, sha256: Mapping[str, str] | None = None) -> None:
        """`sha256` are the checksums by name of file; without them they are read from the folder."""
        self.path = path
        self._sha256 = sha256

    @property
    def sha256(self) -> Mapping[str, str]:
        if self._sha256 is None:
            self._sha256 = checked_sums(self.path / CHECKSUMS, read_json(self.path / CHECKSUMS))
        return self._sha256

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def digest(self) -> str:
        """SHA-256 of the checksums: equal for equal content, wherever it is stored."""
        return hashlib.sha256(pack_json(dict(sorted(self.sha256.items())))).hexdigest()

    def __contains__(self, name: str) -> bool:
        return name in self.sha256

    def faults(self) -> list[str]:
        """What differs from what was written, one line per file."""
        found = []
        for name, expected in self.sha256.items():
            path = self.path / name
            try:
                check_regular(path)
                if path.suffix == TENSORS:
                    stored_shapes(path)  # a wrong length is found without reading all of it
                if sha256_of(path) != expected:
                    found.append(f"{path} is damaged (its checksum differs): copy the model again, or undo")
            except ModelError as error:
                found.append(str(error))
            except OSError as error:
                found.append(f"{path} is missing or cannot be read ({error.strerror}): copy the model again")
        return found

    def check(self) -> None:
        """Refuse a version with a damaged file."""
        if faults := self.faults():
            raise ModelError(faults[0])

    def json(self, name: str) -> Any:
        return read_json(self._file(name))

    def text(self, name: str) -> str:
        return read_bytes(self._file(name)).decode()

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file; none if the version does not have it."""
        return load_tensors(self.path / name) if name in self else {}

    def shapes(self, *names: str) -> Shapes:
        """The shapes of all tensors of these files."""
        found: Shapes = {}
        for name in names:
            found |= stored_shapes(self.path / name) if name in self else {}
        return found

    def sizes(self) -> dict[tuple[int, int], int]:
        """Bytes by file. Versions may share a file, which then has the same key."""
        found = [(self.path / name).stat() for name in self.sha256]
        return {(one.st_dev, one.st_ino): one.st_size for one in found}

    def _file(self, name: str) -> Path:
        if name not in self:
            raise ModelError(f"{self.path / name} is missing: copy the model again, or undo")
        return self.path / name


def seal(version: Path, sha256: Mapping[str, str]) -> None:
    """Write all files of a new version to the disk and then, in one step, their checksums: it is complete by then."""
    for path in version.iterdir():
        sync_file(path)
    atomic_write(version / CHECKSUMS, pack_json({"sha256": dict(sha256)}))
    sync_folder(version)


def checked_sums(path: Path, value: Any) -> dict[str, str]:
    """Checksums by name of file; names must be plain ones, so that no path leads out of the folder."""
    sums = value.get("sha256") if isinstance(value, dict) else None
    if not isinstance(sums, dict) or not all(
        isinstance(one, str) and SHA256.fullmatch(one) and name and Path(name).name == name and "\0" not in name
        for name, one in sums.items()
    ):
        raise ModelError(f"{path} is damaged: copy the model again, or undo")
    return sums
