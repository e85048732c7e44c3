"""Files that are written whole or not at all, large ones that are linked, and JSON that anybody can read."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from memgrow.errors import ModelError, SettingsError, brief
from memgrow.folders import mode_like
from memgrow.unwritten_tensors import UnwrittenTensors

MOST_PARTS = 500_000  # lists and objects in a JSON file of a model: a thousand domains need a tenth of it
MOST_DIGITS = 300  # of a whole number in JSON: one of 310 is more than a float can hold
# A string in JSON, also one that does not end, which would be looked at again and again.
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
HALF = re.compile(r"\\u[dD][89a-fA-F]")  # of a character, perhaps: the other half may follow
DIGITS = re.compile(rf"[0-9]{{{MOST_DIGITS}}}")  # numbers are looked at one by one only where one may be that long


class ReplacedError(ModelError):
    """A file was replaced while it was read: there is a newer version."""


# One file


@contextmanager
def atomic_open(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to, which becomes `path` at the end of the block; after an error `path` is as it was.

    It is open to those whom the umask allows and, if there is an older file, that one too.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.writing")  # several processes may fill one cache
    try:
        mode = mode_like(path, 0o666)
        with open(beside, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            flush(file)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def atomic_write(path: str | Path, content: bytes | str) -> Path:
    """Write a file, text as UTF-8, in place of what was there: a reader finds the old content or the new."""
    with atomic_open(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return Path(path)


@contextmanager
def open_output(path: str | Path) -> Iterator[BinaryIO]:
    """The same for a file that a user names: a link stays, and what it points to is written.

    A pipe or a device is written to as it is. Files of memgrow's own are for `atomic_open`, which follows no link:
    another user may have put it there.
    """
    check_output(path)
    if _is_stream(path):
        with open(path, "wb", opener=lambda name, _: os.open(name, os.O_WRONLY)) as file:  # it is never made
            yield file
        return
    with atomic_open(os.path.realpath(path)) as file:
        yield file


def check_output(path: str | Path) -> None:
    """Refuse a folder where a user is to name a file: before any work."""
    if Path(path).is_dir():
        raise SettingsError(f"{path} is a folder: give the name of a file")


def _is_stream(path: str | Path) -> bool:
    """Whether something is there that has no content to be replaced: a pipe or a device."""
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


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


def parse_json(content: bytes | str) -> Any:
    """What JSON stands for; of a key that stands twice and a number that no float can hold, a ValueError.

    Also of half a character, and of bytes that are not UTF-8: json would take UTF-16 as well, in which nobody has
    counted lists and digits.
    """
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    value = json.loads(text, object_pairs_hook=_table, parse_int=_integer if DIGITS.search(text) else None)
    if HALF.search(text):
        pack_json(value)  # what cannot be written is refused now, and not when a domain has been learnt
    return value


def _integer(digits: str) -> int:
    if len(digits) >= MOST_DIGITS:
        raise ValueError(f"a whole number has {len(digits):,} digits")
    return int(digits)


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return table


def load_json(files: "Mapping[str, Content]", name: str) -> Any:
    """What stands in one JSON file of a folder."""
    content = files.get(name)
    if not isinstance(content, bytes):
        raise ModelError(f"{name} is missing, or the manifest does not name it: go back to a saved model")
    if (parts := _parts(content)) > MOST_PARTS:
        raise ModelError(
            f"{name} has {parts:,} lists and objects, and no model needs more than {MOST_PARTS:,}: "
            "go back to a saved model"
        )
    try:
        return parse_json(content)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{name} cannot be read ({brief(error)}): go back to a saved model") from error


def _parts(content: bytes) -> int:
    """The number of lists and objects; brackets within texts are none."""
    if (brackets := content.count(b"[") + content.count(b"{")) <= MOST_PARTS:
        return brackets
    between = STRING.sub(b"", content)
    return between.count(b"[") + between.count(b"{")


def load_tensors(files: "Mapping[str, Content]", name: str) -> dict[str, Tensor]:
    """The tensors of one file of a folder; none if the folder does not have it."""
    content = files.get(name)
    if content is None:
        return {}
    try:
        return safetensors.torch.load(content) if isinstance(content, bytes) else content.tensors()
    except SafetensorError as error:
        raise ModelError(f"{name} does not hold tensors ({brief(error)}): go back to a saved model") from error


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
            return cls.of(file, path)

    @classmethod
    def of(cls, file: BufferedReader, path: Path) -> "StoredFile":
        """The same of a file that is open already."""
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
        found = os.fstat(file.fileno())
        return cls(path, checksum, found.st_size, identity_of(found))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors in it, mapped from the file: what is not read takes no memory."""
        try:
            tensors = safetensors.torch.load_file(self.path)
            same = identity_of(self.path.stat()) == self.identity
        except OSError:
            same = False
        if not same:
            raise ReplacedError(f"{self.path} was replaced while it was read: try again")
        return tensors

    def link(self, path: Path) -> None:
        """Give the file a second name, or copy it there."""
        link_or_copy(self.path, path)
        with path.open("rb") as file:
            same = identity_of(os.fstat(file.fileno())) == self.identity
            if not same and hashlib.file_digest(file, "sha256").hexdigest() != self.sha256:
                raise ReplacedError(f"{self.path} was replaced while it was read: try again")


Content = bytes | StoredFile | UnwrittenTensors  # of a file in a folder


def link_or_copy(old: Path, new: Path) -> None:
    """Give a file a second name or, where that cannot be (on another disk, say), copy it there, no more open."""
    try:
        os.link(os.path.realpath(old), new)
    except OSError:
        shutil.copyfile(old, new)
        new.chmod(new.stat().st_mode & old.stat().st_mode & 0o777)
    if os.name == "posix":  # elsewhere only a file that is open for writing can be flushed
        with new.open("rb") as file:
            os.fsync(file.fileno())


def flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def identity_of(file: os.stat_result) -> tuple[int, ...]:
    return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns


def size_of(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.size
