"""A model's folder, format 3: immutable versions, a manifest that names the current one, and a lock for writers.

    model/manifest.json               {"format": 3, "version": "0004", "earlier": ["0003"], "keep": 1, "last": 4}
    model/versions/0004/              the files of a version, see `checkpoint`
    model/versions/0004/checksums.json  their SHA-256
    model/training/                   an unfinished training, see `training.progress`
    model/.lock                       held by the process that writes

A save writes a new version, syncs it, and then replaces the manifest: that is the one step that counts. After a kill
before that step the next writer removes the version. Readers need no lock.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from safetensors import SafetensorError
from torch import Tensor

from memgrow.data.disk import (
    TENSORS,
    TRAINING,
    Shapes,
    atomic_write,
    check_regular,
    link_or_copy,
    load_tensors,
    pack_json,
    parse_json,
    read_bytes,
    read_json,
    sha256_of,
    stored_shapes,
    sync_file,
    sync_folder,
)
from memgrow.errors import ModelError, brief
from memgrow.nn import distributed

CHECKSUMS = "checksums.json"
SHA256 = re.compile("[0-9a-f]{64}")
OLD_VERSION = re.compile("version-[0-9a-f]{8}")  # of formats 1 and 2


class VersionFolder:
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
        """The beginning of the SHA-256 of the checksums: equal for equal content, wherever it is stored."""
        return hashlib.sha256(pack_json(dict(sorted(self.sha256.items())))).hexdigest()[:16]

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


def checked_sums(path: Path, value: Any) -> dict[str, str]:
    """Checksums by name of file; names must be plain ones, so that no path leads out of the folder."""
    sums = value.get("sha256") if isinstance(value, dict) else None
    if not isinstance(sums, dict) or not all(
        isinstance(one, str) and SHA256.fullmatch(one) and name and Path(name).name == name and "\0" not in name
        for name, one in sums.items()
    ):
        raise ModelError(f"{path} is damaged: copy the model again, or undo")
    return sums


FORMAT = 3
MANIFEST, VERSIONS, LOCK = "manifest.json", "versions", ".lock"
HALF_MANIFEST = f".{MANIFEST}.*.writing"  # of a process that was killed
MAX_MANIFEST_BYTES = 1 << 20
GRACE_S = 3.0  # a killed process may hold its lock for a moment
PATIENCE_S = 30.0  # of a save, while another process saves
TRIES = 100  # of a reader, while versions are replaced
NUMBER, FIRST = re.compile("[0-9]{4,9}"), "0001"

Result = TypeVar("Result")


@dataclass(frozen=True)
class ModelFolder:
    """What a folder's manifest says: the current version first, then the earlier ones that are kept."""

    path: Path
    versions: tuple[VersionFolder, ...] = ()
    keep: int | None = None  # how many earlier versions to keep; None: the default
    last: int = 0  # highest version number so far; numbers are not used twice
    format: int = FORMAT
    raw: bytes = b""  # the manifest as it was read: other bytes mean that a writer has replaced it

    @classmethod
    def read(cls, path: str | Path) -> "ModelFolder":
        """Read the manifest of a model, of this format or an older one."""
        path = Path(os.path.realpath(path))
        if not path.is_dir():
            reason = "a model is a folder, and this is a file" if path.exists() else "check the name"
            raise ModelError(f"there is no model at {path}: {reason}")
        if not (path / MANIFEST).exists():
            advice = "finish its first training" if (path / TRAINING).exists() else "copy all of it"
            raise ModelError(f"{path} has no {MANIFEST}, so it is not a memgrow model, or not all of one: {advice}")
        raw = read_bytes(path / MANIFEST, MAX_MANIFEST_BYTES)
        try:
            value = parse_json(raw)
            found = value["format"]
            if found == FORMAT:
                names, keep, last = [value["version"], *value["earlier"]], value["keep"], value["last"]
                if not all(map(NUMBER.fullmatch, names)) or len(set(names)) != len(names):
                    raise ValueError("versions are numbers")
                if type(last) is not int or type(keep) not in (int, type(None)) or max(map(int, names)) > last:
                    raise ValueError("keep and last are numbers")
                return cls(path, tuple(VersionFolder(path / VERSIONS / name) for name in names), keep, last, raw=raw)
            if found in (1, 2):
                versions, keep = _parse_old_manifest(path, value)
                return cls(path, versions, keep, format=found, raw=raw)
            if type(found) is int and found > FORMAT:
                raise ModelError(f"{path} was written by a newer memgrow (format {found}): update memgrow")
            raise ValueError("there is no such format")
        except ModelError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelError(f"{path / MANIFEST} is damaged ({brief(error)}): copy the model again") from error

    @classmethod
    def to_write(cls, path: str | Path) -> "ModelFolder":
        """The folder of a model that this process is about to change; hold its lock. An older format is converted."""
        path = Path(os.path.realpath(path))
        if not (path / MANIFEST).exists():
            if others := foreign_names(path):
                raise ModelError(f"{path} is not a memgrow model and holds other files ({others[0]}): choose another")
            return cls(path)
        found = cls.read(path)
        if found.format != FORMAT:
            with writing(path):
                found.publish(_converted(found.versions, path / VERSIONS), found.keep, len(found.versions))
        return cls.read(path)

    @contextmanager
    def new_version(self, earlier: Sequence[VersionFolder], keep: int | None) -> Iterator[Path]:
        """A folder to write the next version to. After the block it is the current one, with these `earlier` ones."""
        version = self.path / VERSIONS / f"{self.last + 1:04}"
        try:
            with writing(self.path):
                version.mkdir(parents=True)
                yield version
                seal(version, {file.name: sha256_of(file) for file in sorted(version.iterdir())})
                self.publish([VersionFolder(version), *earlier], keep, self.last + 1)
        finally:
            clear_leftovers(self.path)

    def publish(self, versions: Sequence[VersionFolder], keep: int | None, last: int | None = None) -> None:
        """Let the manifest name these versions, the current one first. All others are removed."""
        current, *earlier = [version.name for version in versions]
        last = self.last if last is None else last
        value = {"format": FORMAT, "version": current, "earlier": earlier, "keep": keep, "last": last}
        with writing(self.path):
            sync_folder(self.path / VERSIONS)
            atomic_write(self.path / MANIFEST, pack_json(value))
        clear_leftovers(self.path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a ModelError."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot write {path} ({reason}): make room; the model is unchanged") from error


def read_settled(path: str | Path, read: Callable[[ModelFolder], Result]) -> Result:
    """Call `read` with a model's folder, and again if a writer has removed what was being read."""
    for _ in range(TRIES):
        folder = ModelFolder.read(path)
        try:
            return read(folder)
        except (ModelError, OSError) as error:
            with suppress(OSError):
                if (folder.path / MANIFEST).read_bytes() != folder.raw:
                    continue
            if isinstance(error, OSError):
                raise ModelError(f"{path} cannot be read ({error.strerror or error}): copy the model again") from error
            raise
    raise ModelError(f"{path} was replaced {TRIES} times while it was read: try again")


def foreign_names(path: Path) -> list[str]:
    """Names in a folder without a manifest that memgrow did not put there, or that are a model copied in part."""
    if not path.is_dir():
        return [path.name] if path.exists() else []
    half = [one.name for one in path.glob(HALF_MANIFEST)]
    ours = {TRAINING, LOCK, *half, *([VERSIONS] if _only_first(path) else [])}
    return sorted(one.name for one in path.iterdir() if one.name not in ours)


def _only_first(path: Path) -> bool:
    return {one.name for one in path.glob(f"{VERSIONS}/*")} <= {FIRST}


# Formats 1 and 2: files beside the manifest, or in version-* folders. The next save converts them.
# {"format": 2, "sha256": {...}, "folder": "version-1a2b3c4d", "keep": 1, "earlier": {"2": {"format": 2, ...}}}


def _parse_old_manifest(path: Path, value: Any) -> tuple[tuple[VersionFolder, ...], int | None]:
    """The versions of an older folder, the current one first, and how many earlier ones to keep."""
    earlier = sorted(((int(number), one) for number, one in value.get("earlier", {}).items()), reverse=True)
    versions = []
    for one in (value, *(one for _, one in earlier)):
        within = one.get("folder", ".")
        if within != "." and not OLD_VERSION.fullmatch(within):
            raise ValueError("it leads out of the folder")
        versions.append(VersionFolder(path / within, checked_sums(path / MANIFEST, one)))
    keep = value.get("keep")
    return tuple(versions), None if keep is None else int(keep)


def _converted(versions: Sequence[VersionFolder], place: Path) -> list[VersionFolder]:
    """Write older versions as 0001, 0002, ... of format 3, by hard links."""
    converted = []
    for number, old in enumerate(reversed(versions), 1):
        new = place / f"{number:04}"
        new.mkdir(parents=True)
        for name in old.sha256:
            if (old.path / name).is_file():  # if not, it is damaged, and stays so
                link_or_copy(old.path / name, new / name)
        seal(new, old.sha256)
        converted.append(VersionFolder(new))
    return converted[::-1]


# The lock


@contextmanager
def hold(path: str | Path, wait: float | None = None, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock of a model's folder, which is made if need be; a ModelError if it is held for `wait` seconds.

    A thread that holds the lock may ask for it again. `on_wait` is called with a sentence before waiting. Of several
    processes that train together the first one holds it.
    """
    if not distributed.is_first():
        yield
        return
    path = Path(os.path.realpath(path))
    made = [one for one in (path, *path.parents) if not one.exists()]
    lock = _acquire(path, GRACE_S if wait is None else wait, on_wait)
    try:
        if lock.lock_counter == 1:
            clear_leftovers(path)
        yield
    finally:
        with suppress(OSError):
            if made and {one.name for one in path.iterdir()} <= {LOCK}:  # nothing was written
                (path / LOCK).unlink()
        lock.release()
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def _acquire(path: Path, wait: float, on_wait: Callable[[str], None] | None) -> FileLock:
    place = path / LOCK
    busy = f"{path} is being changed by another process"
    try:
        if path.is_dir() and not os.access(path, os.W_OK | os.X_OK):
            raise ModelError(f"{path} is read-only: allow writing to it (chmod u+w), or work on a copy of it")
        path.mkdir(parents=True, exist_ok=True)
        for own in (place, path / TRAINING, path / VERSIONS, *path.glob(f"{VERSIONS}/*")):
            if own.is_symlink():
                raise ModelError(f"{own} is a symbolic link: remove it")
        lock = FileLock(place, is_singleton=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if on_wait is not None:
                on_wait(f"{busy}: waiting for it")
            lock.acquire(timeout=-1 if isinf(wait) else wait, poll_interval=0.02)
    except Timeout as error:
        raise ModelError(f"{busy}: wait for it (`memgrow adapt --wait`) or stop it") from error
    except OSError as error:
        raise ModelError(f"cannot write to {path} ({error.strerror or error}): choose another place") from error
    return lock


def clear_leftovers(path: Path) -> None:
    """Remove what killed writers left."""
    named, old = list[str](), list[str]()
    if (path / MANIFEST).exists():
        try:
            folder = ModelFolder.read(path)
        except ModelError:  # it may have named any version
            return
        if folder.format == FORMAT:
            named = [version.name for version in folder.versions]
            old = list(folder.versions[0].sha256)  # formats 1 and 2 had them beside the manifest
    elif not _only_first(path):
        return
    for left in path.glob(f"{VERSIONS}/*"):
        if NUMBER.fullmatch(left.name) and left.name not in named:
            shutil.rmtree(left, ignore_errors=True)
    for left in path.iterdir():
        with suppress(OSError):
            if left.name in old or left.match(HALF_MANIFEST):
                left.unlink()
            elif named and OLD_VERSION.fullmatch(left.name):
                shutil.rmtree(left)
