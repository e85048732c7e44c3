"""Files and folders that are written whole or not at all, and JSON that anybody can read."""

import ctypes
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from memgrow.errors import ModelError

MANIFEST = "manifest.json"


# One file


@contextmanager
def atomic_open(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to, which becomes `path` at the end of the block; after an error `path` is as it was."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.writing")  # several processes may fill one cache
    try:
        with beside.open("wb") as file:
            yield file
            _flush(file)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def atomic_write(path: str | Path, content: bytes | str) -> Path:
    """Write a file, text as UTF-8, in place of what was there: a reader finds the old content or the new."""
    with atomic_open(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return Path(path)


# What is in it


def finite(value: Any) -> Any:
    """The same with None for infinite numbers, which JSON has no word for."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def pack_json(value: Any) -> bytes:
    """JSON as a person can read it, infinite numbers and all: settings that are read back may be infinite."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def pack_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    return safetensors.torch.save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})


def load_json(files: "Mapping[str, Content]", name: str) -> Any:
    """What stands in one JSON file of a folder."""
    content = files[name]
    assert isinstance(content, bytes)
    return json.loads(content)


def load_tensors(files: "Mapping[str, Content]", name: str) -> dict[str, Tensor]:
    """The tensors of one file of a folder; none if the folder does not have it."""
    content = files.get(name)
    if content is None:
        return {}
    try:
        return content.tensors() if isinstance(content, StoredFile) else safetensors.torch.load(content)
    except SafetensorError as error:
        raise ModelError(f"{name} does not hold tensors ({error}): go back to a saved model") from error


@dataclass(frozen=True)
class StoredFile:
    """A large file on the disk, read through once for its checksum but not held in memory.

    Files of a folder are replaced and never changed in place. So another folder may have the same file by a link, and
    `identity` tells whether the name still stands for the file that was read.
    """

    path: Path
    sha256: str
    size: int
    identity: tuple[int, ...]

    @classmethod
    def open(cls, path: Path) -> "StoredFile":
        with path.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
            found = os.fstat(file.fileno())
        return cls(path, checksum, found.st_size, _identity(found))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors in it, mapped from the file: what is not read takes no memory."""
        try:
            tensors = safetensors.torch.load_file(self.path)
            same = _identity(self.path.stat()) == self.identity
        except OSError:
            same = False
        if not same:
            raise ModelError(f"{self.path} was replaced while it was read: try again")
        return tensors

    def link(self, path: Path) -> None:
        """Give the file a second name or, where that cannot be (on another disk, say), copy it there."""
        try:
            os.link(os.path.realpath(self.path), path)
        except OSError:
            shutil.copyfile(self.path, path)
        with path.open("rb") as file:
            if os.name == "posix":  # elsewhere only a file that is open for writing can be flushed
                os.fsync(file.fileno())
            same = _identity(os.fstat(file.fileno())) == self.identity
            if not same and hashlib.file_digest(file, "sha256").hexdigest() != self.sha256:
                raise ModelError(f"{self.path} was replaced while it was read: try again")


Content = bytes | StoredFile  # of a file in a folder


# A folder of files with a manifest that has their checksums


def write_folder(path: str | Path, files: Mapping[str, Content], version: int = 1) -> None:
    """Write `files`, of that version of their format, and a manifest as the folder `path`: all of it or nothing.

    A file that is stored already is linked, not written again.
    """
    path = Path(os.path.realpath(path))  # of a link, what it points to
    if path.exists() and not (path / MANIFEST).is_file() and (not path.is_dir() or any(path.iterdir())):
        raise ModelError(f"{path} is there already and is not a memgrow model: choose another name, or move it away")
    manifest = {"format": version, "sha256": {name: _checksum(content) for name, content in files.items()}}
    try:
        with atomic_folder(path) as beside:
            for name, content in {**files, MANIFEST: pack_json(manifest)}.items():
                if isinstance(content, StoredFile):
                    content.link(beside / name)
                else:
                    write_file(beside / name, content)
            _keep_others(path, beside)
    except OSError as error:
        size = sum(content.size if isinstance(content, StoredFile) else len(content) for content in files.values())
        raise ModelError(
            f"could not write {size / 1e6:.1f} MB as {path} ({error.strerror or error}): make room or choose another "
            "place; what was there before is unchanged"
        ) from error


def read_folder(path: str | Path, newest: int = 1, large: Collection[str] = ()) -> dict[str, Content]:
    """The files of a folder of a version up to `newest`, each checked against its checksum.

    Those that are named as `large` stay on the disk.
    """
    path = Path(os.path.realpath(path))
    _recover(path)
    if not path.exists():
        raise ModelError(f"there is no model at {path}: check the name, or create it with `memgrow adapt`")
    if not (path / MANIFEST).is_file():
        raise ModelError(f"{path} has no {MANIFEST}: it is not a memgrow model, or was copied in part; copy it again")
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        version, sums = int(manifest["format"]), dict(manifest["sha256"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path / MANIFEST} is damaged: copy the model again, or go back to a saved one") from error
    if version > newest:
        raise ModelError(
            f"{path} was written by a newer memgrow (format {version}; this one reads up to {newest}): update memgrow"
        )
    return {name: _read(path / name, expected, name in large) for name, expected in sums.items()}


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """An empty folder to fill, which becomes `path` at the end of the block; after an error `path` is as it was."""
    _recover(path)
    beside = path.with_name(f".{path.name}.writing")  # one name, so that what a killed run left is cleared by the next
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        yield beside
        _put_in_place(beside, path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_file(path: Path, data: bytes) -> None:
    """Write a file of a folder that nobody reads yet, and see that it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        _flush(file)


def exchange(a: Path, b: Path) -> bool:
    """Swap two names in one step (Linux has a system call for it); False where that cannot be done."""
    at_fdcwd, rename_exchange = -100, 2
    if not sys.platform.startswith("linux"):
        return False
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return bool(swap(at_fdcwd, os.fsencode(a), at_fdcwd, os.fsencode(b), rename_exchange) == 0)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _identity(file: os.stat_result) -> tuple[int, ...]:
    return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns


def _checksum(content: Content) -> str:
    return content.sha256 if isinstance(content, StoredFile) else hashlib.sha256(content).hexdigest()


def _read(path: Path, expected: str, large: bool) -> Content:
    try:
        content = StoredFile.open(path) if large else path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} is missing or cannot be read: the model was copied in part; copy it again") from error
    if _checksum(content) != expected:
        raise ModelError(f"{path} is not what was written (its checksum differs): copy it again, or go back")
    return content


def _keep_others(old: Path, new: Path) -> None:
    """Copy what a user has put beside our files."""
    try:
        ours = {MANIFEST, *json.loads((old / MANIFEST).read_bytes())["sha256"]}
    except (OSError, ValueError, KeyError, TypeError):
        return
    for path in old.iterdir():
        if path.name not in ours and not (new / path.name).exists():
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, new / path.name)


def _put_in_place(beside: Path, path: Path) -> None:
    """Give the new folder the name of the old one, so that a reader finds one or the other at every moment."""
    if not path.exists():
        beside.rename(path)
    elif not exchange(beside, path):
        # Where the system cannot exchange two names there is a moment without the name, but no half folder. A run that
        # is killed in that moment leaves the old folder under another name, and `_recover` gives it its own back.
        path.rename(_aside(path))
        try:
            beside.rename(path)
        finally:
            _recover(path)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _recover(path: Path) -> None:
    """Put the old folder back if there is no new one, and remove it if there is."""
    if not path.exists() and _aside(path).exists():
        _aside(path).rename(path)
    shutil.rmtree(_aside(path), ignore_errors=True)
