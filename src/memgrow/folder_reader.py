"""A folder with a manifest is read only if it is whole; one that is replaced meanwhile, as it was or as it is then."""

import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

from memgrow.errors import ModelError
from memgrow.folders import put_aside
from memgrow.manifest import MANIFEST, Manifest, NoVersionError, opened_folder, read_manifest
from memgrow.storage import Content, StoredFile, identity_of
from memgrow.tensor_files import LARGEST_TEXT, check_size

TRIES = 100  # of a reader, while the folder is being replaced
# Bytes of files that are small however much a model has learnt.
SMALL = {"config.json": 1 << 24, "encoder.json": 1 << 24, "state.json": 1 << 24}
Found = TypeVar("Found")


def read_folder(
    path: str | Path, newest: int = 1, large: Collection[str] = (), number: int | None = None
) -> dict[str, Content]:
    """The files of a folder of a version up to `newest`, each checked against its checksum.

    Those that are named as `large` stay on the disk. With a `number` they are those of an earlier version. A folder
    that is replaced meanwhile is read as it was or as it is then; nothing is changed, so that it may be read-only.
    """
    return _settled(path, lambda found: _read_version(found, newest, large, number))


@dataclass(frozen=True)
class Version:
    """A version of a folder, as far as one looks at it without reading all of it."""

    number: int | None  # None: it is no earlier one
    content: bytes | None  # of the file that was asked for; None: it is damaged
    sizes: Mapping[tuple[int, ...], int]  # of its files, each known by its identity: versions may share them


def look_at_versions(path: str | Path, name: str, newest: int = 1) -> list[Version]:
    """One small file of a folder and of each of its earlier versions, the latest first, and how large all files are."""

    def look(found: Path) -> list[Version]:
        versions, before = [], _version_at(found)
        with opened_folder(found) as opened:
            manifest = read_manifest(opened, found, newest)
            for number, one in [(None, manifest), *sorted(manifest.earlier.items(), reverse=True)]:
                try:
                    versions.append(_look_at(opened, found, one, name, number))
                except ModelError:
                    if _version_at(found) != before:
                        raise
                    versions.append(Version(number, None, {}))
        return versions

    return _settled(path, look)


def find_damage(path: str | Path, newest: int = 1, large: Collection[str] = (), number: int | None = None) -> list[str]:
    """All that keeps a folder from being read, a sentence for each; what a writer replaces meanwhile is none."""
    path = Path(os.path.realpath(path))
    found: list[str] = []
    try:
        read_folder(path, newest, large, number)
    except NoVersionError:  # it has been removed meanwhile
        return found
    except ModelError as error:
        with suppress(ModelError), opened_folder(path) as opened:
            manifest = read_manifest(opened, path, newest, number)
            for name, expected in manifest.sha256.items():
                try:
                    with _opened(opened, path, manifest, name) as file:
                        _read(file, path / manifest.folder / name, expected, large=True)
                except ModelError as fault:
                    found.append(str(fault))
        return found or [str(error)]
    return found


def _settled(path: str | Path, read: Callable[[Path], Found]) -> Found:
    """The result of reading a folder; it is read again if it was replaced meanwhile and that did harm."""
    path = Path(os.path.realpath(path))
    for _ in range(TRIES):
        before = _version_at(path)
        try:
            found = path if path.exists() else put_aside(path) or path
            if not found.exists():
                raise ModelError(f"there is no model at {path}: check the name, or create it with `memgrow adapt`")
            return read(found)
        except ModelError as error:
            wrong = error
        if _version_at(path) == before:
            break
    raise wrong


def _read_version(path: Path, newest: int, large: Collection[str], number: int | None) -> dict[str, Content]:
    with ExitStack() as stack:
        opened = stack.enter_context(opened_folder(path))
        manifest = read_manifest(opened, path, newest, number)
        # All are opened before any is read: then it does not matter that a writer removes them.
        files = {name: stack.enter_context(_opened(opened, path, manifest, name)) for name in manifest.sha256}
        return {
            name: _read(file, path / manifest.folder / name, manifest.sha256[name], name in large)
            for name, file in files.items()
        }


def _look_at(
    opened: Callable[[str], BufferedReader], path: Path, manifest: Manifest, name: str, number: int | None
) -> Version:
    with ExitStack() as stack:
        files = {one: stack.enter_context(_opened(opened, path, manifest, one)) for one in manifest.sha256}
        if name not in files:
            raise ModelError(f"{path} has no {name}: it is not a memgrow model, or was copied in part; copy it again")
        found = [os.fstat(file.fileno()) for file in files.values()]
        content = _read(files[name], path / manifest.folder / name, manifest.sha256[name], large=False)
        assert isinstance(content, bytes)
        return Version(number, content, {identity_of(one): one.st_size for one in found})


def _opened(opened: Callable[[str], BufferedReader], path: Path, manifest: Manifest, name: str) -> BufferedReader:
    try:
        return opened(os.path.join(manifest.folder, name))  # noqa: PTH118 - relative to the open folder
    except OSError as error:
        raise ModelError(
            f"{path / manifest.folder / name} is missing or cannot be read: the model was copied in part; copy it again"
        ) from error


def _read(file: BufferedReader, path: Path, expected: str, large: bool) -> bytes | StoredFile:
    content: bytes | StoredFile
    try:
        check_size(file, path, SMALL.get(path.name, LARGEST_TEXT))
        content = StoredFile.of(file, path) if large else file.read()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror or error}): copy the model again") from error
    found = hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else content.sha256
    if found != expected:
        raise ModelError(f"{path} is not what was written (its checksum differs): copy it again, or go back")
    return content


def _version_at(path: Path) -> tuple[str | int, ...] | None:
    """Tells versions of a folder apart, and one that has its name from one that has lost it."""
    folder = path if path.exists() else put_aside(path) or path
    with suppress(OSError):
        return folder.name, *identity_of((folder / MANIFEST).stat())
    return None
