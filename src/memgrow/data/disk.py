"""Files: atomic writes, checksums, JSON and tensors."""

import gzip
import hashlib
import io
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, BinaryIO, Literal, Union, get_args, get_origin, get_type_hints

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from memgrow.errors import DataError, ModelError, SettingsError, brief

MISSING_TYPES = ("NAType", "NaTType")  # of pandas; they do not compare equal to themselves


def plain(value: object) -> object:
    """A scalar of numpy or torch as Python's own; anything else as it is."""
    if getattr(value, "ndim", None) == 0 and callable(item := getattr(value, "item", None)):
        found: object = item()
        return found
    return value


def take_plain_values(settings: Any) -> None:
    """Convert numpy scalars in a frozen dataclass under construction: they cannot be saved as JSON."""
    for one in fields(settings):
        object.__setattr__(settings, one.name, plain(getattr(settings, one.name)))


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN or pandas' NA."""
    value = plain(value)
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in MISSING_TYPES


def name_of(value: object) -> str | None:
    """A label, or the name of a domain, group or part, as a string; None for other types than string, int and bool."""
    value = plain(value)
    return str(value) if isinstance(value, str | int) else None


def kind_of(value: object) -> str:
    """The type of a value, for error messages."""
    value = plain(value)
    return f"missing ({value})" if is_missing(value) else f"of type {type(value).__name__}"


def lone_surrogate(text: str) -> str | None:
    """The first lone surrogate of a text as an escape (a file cannot hold it), or None."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(text[error.start]):04x}"
    return None


def wrong_part(value: Any, hint: Any, name: str) -> str | None:
    """The name of the first part of a value that is not what the hint says; None if all of it is."""
    origin, kinds = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if any(wrong_part(value, kind, name) is None for kind in kinds) else name
    if hint is Any or origin is Literal:
        return None if hint is Any or value in kinds else name
    if hint in (int, float):
        return None if isinstance(value, int if hint is int else int | float) and not isinstance(value, bool) else name
    if not isinstance(value, origin or hint):
        return name
    parts: Iterable[tuple[object, object, Any]] = ()  # what each is called, itself, and its hint
    if is_dataclass(hint):
        parts = ((one.name, getattr(value, one.name), _hints(hint)[one.name]) for one in fields(hint))
    elif isinstance(value, Mapping) and kinds:
        parts = ((key, part, kind) for key, one in value.items() for part, kind in zip((key, one), kinds, strict=True))
    elif kinds:
        parts = ((number, part, kinds[0]) for number, part in enumerate(value))
    found = (wrong_part(part, kind, f"{name}.{called}") for called, part, kind in parts)
    return next((wrong for wrong in found if wrong is not None), None)


_hints: Callable[[Any], dict[str, Any]] = lru_cache(maxsize=64)(get_type_hints)


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


MAX_TEXT_BYTES = 1 << 27  # of a file that holds no tensors: vocabulary, history, configuration
MAX_UNPACKED, MAX_RATIO = 16 << 20, 100  # bytes, beyond which a file may unpack to so many times its own size
TENSORS = ".safetensors"
TRAINING = "training"  # folder of an unfinished training in a model's folder

Shapes = dict[str, tuple[int, ...]]  # of tensors by name


@contextmanager
def atomic_open(path: str | Path) -> Iterator[BinaryIO]:
    """Open a new file (no link is followed) that replaces `path` at the end; after an error `path` is unchanged."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.writing")
    mode = path.stat().st_mode & 0o666 if path.exists() else 0o666
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write(path: str | Path, content: bytes | str) -> Path:
    """Write a file, text as UTF-8. A reader finds the old content or the new."""
    with atomic_open(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return Path(path)


def write_new(path: Path, content: bytes | str) -> None:
    """Write a file that does not exist, such as one in a new folder: no link is followed."""
    with path.open("xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def open_own(path: Path) -> BinaryIO:
    """Open a file to read, but neither a link nor a pipe that one would wait for."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return open(path, "rb", opener=lambda name, given: os.open(name, given | flags))


@contextmanager
def open_output(path: str | Path) -> Iterator[BinaryIO]:
    """`atomic_open` for a file that the user names: links are followed, pipes and devices are written to directly."""
    check_output(path)
    path = Path(path)
    if path.exists() and not path.is_file():
        with open(path, "wb", opener=lambda name, _: os.open(name, os.O_WRONLY)) as file:
            yield file
        return
    with atomic_open(os.path.realpath(path)) as file:
        yield file


def check_output(path: str | Path) -> None:
    """Refuse a folder as the name of an output file, before any work is done."""
    if Path(path).is_dir():
        raise SettingsError(f"{path} is a folder: give the name of a file")


class Unpacked(io.RawIOBase):
    """The content of a .gz file, which is refused if it is out of proportion: kilobytes can unpack to any size."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._read = path, gzip.open(path), 0  # noqa: SIM115 - closed by `close`

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._read += count
        check_unpacked(self._path, self._read)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def check_unpacked(path: Path, size: int) -> None:
    """Refuse a file that unpacks to so many bytes, or more, if they are out of proportion to its own size."""
    if size > MAX_UNPACKED and size > MAX_RATIO * path.stat().st_size:
        raise DataError(f"{path} unpacks to more than {MAX_RATIO} times its size: if you trust it, unpack it first")


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the name `path` at the end of the block; after an error nothing changes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.writing")
    old = temporary.with_suffix(".old.writing")
    try:
        temporary.mkdir()
        yield temporary
        sync_folder(temporary)
        if path.exists():
            path.rename(old)
        temporary.rename(path)
        sync_folder(path.parent)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        for left in (temporary, old):
            shutil.rmtree(left, ignore_errors=True)


def sync_file(path: Path) -> None:
    with path.open("rb" if os.name == "posix" else "rb+") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Write the names in a folder to the disk."""
    if os.name == "posix":
        with suppress(OSError):  # not supported by every file system
            number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


def link_or_copy(old: Path, new: Path) -> None:
    """Give a file a second name or, where the file system has no hard links, copy it."""
    source = os.path.realpath(old)
    try:
        os.link(source, new)
    except OSError:
        shutil.copyfile(source, new)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def finite(value: Any) -> Any:
    """The same value with None in place of infinite numbers and NaN, which JSON does not have."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def pack_json(value: Any) -> bytes:
    """Indented JSON. Infinite numbers are written as Python reads them: settings may be infinite."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def parse_json(content: bytes | str) -> Any:
    """Parse JSON in UTF-8; a ValueError if it is not JSON."""
    try:
        return json.loads(content if isinstance(content, str) else content.decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_json(path: Path) -> Any:
    """Parse a JSON file of a model; a ModelError if it is missing, too large or not JSON."""
    content = read_bytes(path)
    try:
        return parse_json(content)
    except ValueError as error:
        raise ModelError(f"{path} is not JSON ({brief(error)}): copy the model again, or undo") from error


def read_bytes(path: Path, most: int = MAX_TEXT_BYTES) -> bytes:
    """Read a small file of a model."""
    try:
        check_regular(path, most)
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror or error}): copy the model again") from error


def check_regular(path: Path, most: int = MAX_TEXT_BYTES) -> None:
    """Refuse what is not a plain file, or is larger than a file without tensors can be."""
    size = path.stat().st_size
    if not path.is_file():
        raise ModelError(f"{path} is not a plain file: copy the model again")
    if path.suffix != TENSORS and size > most:
        raise ModelError(f"{path} has {size >> 20:,} MB, more than a file of a model can have: copy the model again")


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file. Tensors that share memory, such as tied weights, are written once each."""
    seen = set[int]()
    packed = {}
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        storage = own.untyped_storage().data_ptr()
        packed[name] = own.clone() if storage in seen else own
        seen.add(storage)
    path.unlink(missing_ok=True)  # it may be a link
    try:
        save_file(packed, path, metadata)
    except SafetensorError as error:  # such as a full disk
        raise OSError(str(error).rpartition("I/O error: ")[2]) from error
    sync_file(path)


@contextmanager
def _reading_tensors(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, RuntimeError, MemoryError) as error:  # damaged; removed meanwhile; too large to map
        raise ModelError(f"{path} is not a safetensors file ({brief(error)}): copy the model again") from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file."""
    with _reading_tensors(path):
        return load_file(path)


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata that `save_tensors` was given."""
    with safe_open(path, "pt") as file:
        return file.metadata() or {}


def stored_shapes(path: Path) -> Shapes:
    """The shapes of a safetensors file's tensors; only its header is read."""
    with _reading_tensors(path), safe_open(path, "pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
