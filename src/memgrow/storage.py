"""Files and folders that are written whole or not at all, and JSON that anybody can read."""

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from memgrow.errors import ModelError
from memgrow.folders import VERSION, aside, atomic_folder, contents, mode_like, replaceable, sync_folder
from memgrow.locking import hold
from memgrow.tensor_files import check_size

MANIFEST = "manifest.json"
PATIENCE_S = 30.0  # of a writer, while another one writes the same folder
TRIES = 100  # of a reader, while the folder is being replaced


class ReplacedError(ModelError):
    """A file was replaced while it was read: there is a newer version."""


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
            return cls.of(file, path)

    @classmethod
    def of(cls, file: BufferedReader, path: Path) -> "StoredFile":
        """The same of a file that is open already."""
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
            raise ReplacedError(f"{self.path} was replaced while it was read: try again")
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
                raise ReplacedError(f"{self.path} was replaced while it was read: try again")


Content = bytes | StoredFile  # of a file in a folder


# A folder of files with a manifest that has their checksums


def write_folder(path: str | Path, files: Mapping[str, Content], version: int = 1, like: Path | None = None) -> None:
    """Write `files`, of that version of their format, and a manifest as the folder `path`: all of it or nothing.

    A file that is stored already is linked, not written again. Files are open to those whom the umask allows and the
    folder that is replaced, or the one that is given as `like`, allowed too. A folder that cannot be replaced, as a
    mount point, gets a new version within, and a manifest that names it.
    """
    path = Path(os.path.realpath(path))  # of a link, what it points to
    manifest = {"format": version, "sha256": {name: _checksum(content) for name, content in files.items()}}
    with hold(path, PATIENCE_S):
        if path.exists() and not (path / MANIFEST).is_file() and (not path.is_dir() or contents(path)):
            raise ModelError(
                f"{path} is there already and is not a memgrow model: choose another name, or move it away"
            )
        try:
            (_write_beside if replaceable(path) else _write_within)(path, files, manifest, like or path)
        except OSError as error:
            size = sum(content.size if isinstance(content, StoredFile) else len(content) for content in files.values())
            raise ModelError(
                f"could not write {size / 1e6:.1f} MB as {path} ({error.strerror or error}): make room or choose "
                "another place; what was there before is unchanged"
            ) from error


def read_folder(path: str | Path, newest: int = 1, large: Collection[str] = ()) -> dict[str, Content]:
    """The files of a folder of a version up to `newest`, each checked against its checksum.

    Those that are named as `large` stay on the disk. A folder that is replaced meanwhile is read as it was or as it
    is then; nothing is changed, so that it may be read-only.
    """
    path = Path(os.path.realpath(path))
    for _ in range(TRIES):
        before = _version_at(path)
        try:
            return _read_version(path if path.exists() else _put_aside(path), newest, large)
        except ModelError as error:
            wrong = error
        if _version_at(path) == before:
            break
    raise wrong


def stored_at(path: Path, name: str) -> Path:
    """Where a file of a folder lies, be it there or not."""
    try:
        return path / Manifest.parse((path / MANIFEST).read_bytes()).folder / name
    except (OSError, ValueError, KeyError, TypeError):
        return path / name


def write_file(path: Path, data: bytes) -> None:
    """Write a file of a folder that nobody reads yet, and see that it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        _flush(file)


@dataclass(frozen=True)
class Manifest:
    """What a folder says of its files: the version of their format, their checksums, and where they lie in it."""

    format: int
    sha256: dict[str, str]
    folder: str = "."

    @classmethod
    def parse(cls, data: bytes) -> "Manifest":
        """Read it; of what does not make sense an error that is not a sentence."""
        value = json.loads(data)
        found = cls(int(value["format"]), dict(value["sha256"]), value.get("folder", "."))
        if found.folder != "." and not VERSION.fullmatch(found.folder):
            raise ValueError(found.folder)
        if strange := [name for name in found.sha256 if name in ("", ".", "..") or "/" in name or os.sep in name]:
            raise ValueError(strange)
        return found


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _identity(file: os.stat_result) -> tuple[int, ...]:
    return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns


def _checksum(content: Content) -> str:
    return content.sha256 if isinstance(content, StoredFile) else hashlib.sha256(content).hexdigest()


# Reading


def _read_version(path: Path, newest: int, large: Collection[str]) -> dict[str, Content]:
    if not path.exists():
        raise ModelError(f"there is no model at {path}: check the name, or create it with `memgrow adapt`")
    with ExitStack() as stack:
        opened = stack.enter_context(_opener(path))
        try:
            with opened(MANIFEST) as file:
                check_size(file, path / MANIFEST)
                data = file.read()
        except OSError as error:
            raise ModelError(
                f"{path} has no {MANIFEST}: it is not a memgrow model, or was copied in part; copy it again"
            ) from error
        try:
            manifest = Manifest.parse(data)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(
                f"{path / MANIFEST} is damaged: copy the model again, or go back to a saved one"
            ) from error
        if manifest.format > newest:
            raise ModelError(
                f"{path} was written by a newer memgrow (format {manifest.format}; this one reads up to {newest}): "
                "update memgrow"
            )
        # All are opened before any is read: then it does not matter that a writer removes them.
        files = {name: stack.enter_context(_opened(opened, path, manifest, name)) for name in manifest.sha256}
        return {
            name: _read(file, path / manifest.folder / name, manifest.sha256[name], name in large)
            for name, file in files.items()
        }


@contextmanager
def _opener(path: Path) -> Iterator[Callable[[str], BufferedReader]]:
    """Opens the files of a folder that may lose its name meanwhile."""
    by_number = os.open in os.supports_dir_fd
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY) if by_number else None
    except OSError as error:
        raise ModelError(f"{path} cannot be read as a folder ({error.strerror}): a model is a folder") from error

    def opened(name: str) -> BufferedReader:
        if folder is None:
            return (path / name).open("rb")
        # Without waiting for a writer, if it is a pipe.
        file = os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise OSError(errno.EINVAL, "It is not a plain file")
        return file

    try:
        yield opened
    finally:
        if folder is not None:
            os.close(folder)


def _opened(opened: Callable[[str], BufferedReader], path: Path, manifest: Manifest, name: str) -> BufferedReader:
    try:
        return opened(os.path.join(manifest.folder, name))  # noqa: PTH118 - relative to the open folder
    except OSError as error:
        raise ModelError(
            f"{path / manifest.folder / name} is missing or cannot be read: the model was copied in part; copy it again"
        ) from error


def _read(file: BufferedReader, path: Path, expected: str, large: bool) -> Content:
    try:
        check_size(file, path)
        content = StoredFile.of(file, path) if large else file.read()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror or error}): copy the model again") from error
    if _checksum(content) != expected:
        raise ModelError(f"{path} is not what was written (its checksum differs): copy it again, or go back")
    return content


def _put_aside(path: Path) -> Path:
    """Where a folder lies while it has lost its name to a new one that has not got it yet."""
    return aside(path) if aside(path).exists() else path


def _version_at(path: Path) -> tuple[int, ...] | None:
    """Tells versions of a folder apart."""
    with suppress(OSError):
        return _identity((path / MANIFEST).stat())
    return None


# Writing


def _write_files(folder: Path, files: Mapping[str, Content], old: Path) -> None:
    for name, content in files.items():
        if isinstance(content, StoredFile):
            content.link(folder / name)  # it keeps its mode, which is that of all its names
            continue
        write_file(folder / name, content)
        _narrow(folder / name, old)


def _narrow(path: Path, old: Path) -> None:
    """Take from a file what its predecessor, or the old manifest, did not allow."""
    known = stored_at(old, path.name)
    mode = path.stat().st_mode & 0o777
    if (allowed := mode_like(known if known.exists() else old / MANIFEST, mode)) != mode:
        path.chmod(allowed)


def _write_beside(path: Path, files: Mapping[str, Content], manifest: Mapping[str, Any], like: Path) -> None:
    """Write all of it beside, and let it take the name at the end."""
    with atomic_folder(path, like) as beside:
        _write_files(beside, {**files, MANIFEST: pack_json(manifest)}, like)
        _keep_others(path, beside)


def _write_within(path: Path, files: Mapping[str, Content], manifest: Mapping[str, Any], like: Path) -> None:
    """Write a version within the folder, and let the manifest name it at the end."""
    version = path / f"version-{secrets.token_hex(4)}"
    try:
        version.mkdir(mode=mode_like(like, 0o777))
        _write_files(version, files, like)
        sync_folder(version)
        mode = mode_like(path / MANIFEST, 0o666)
        with atomic_open(path / MANIFEST) as file:
            file.write(pack_json({**manifest, "folder": version.name}))
            os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode & mode)
        sync_folder(path)
    finally:
        _clear_versions(path)


def _clear_versions(path: Path) -> None:
    """Remove the versions that the manifest does not name, and files that it says to be in a version."""
    try:
        manifest = Manifest.parse((path / MANIFEST).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        manifest = Manifest(0, {})
    for found in path.iterdir():
        if VERSION.fullmatch(found.name) and found.name != manifest.folder:
            shutil.rmtree(found, ignore_errors=True)
        elif manifest.folder != "." and found.name in manifest.sha256:
            with suppress(OSError):
                found.unlink()


def _keep_others(old: Path, new: Path) -> None:
    """Copy what a user has put beside our files."""
    try:
        manifest = Manifest.parse((old / MANIFEST).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return
    for name in contents(old) - {MANIFEST, *manifest.sha256}:
        if not (new / name).exists():
            (shutil.copytree if (old / name).is_dir() else shutil.copy2)(old / name, new / name)
