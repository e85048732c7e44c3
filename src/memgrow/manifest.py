"""A folder of files with a manifest that has their checksums: written whole or not at all, read only if it is whole.

The folder may keep earlier versions of itself, each in a folder within, which the manifest names by a number. They are
part of the folder: copied and moved with it, and exchanged with it in one step.
"""

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from memgrow.errors import ModelError
from memgrow.folders import VERSION, aside, atomic_folder, contents, mode_like, replaceable, sync_folder
from memgrow.locking import hold
from memgrow.storage import (
    Content,
    StoredFile,
    atomic_open,
    checksum,
    flush,
    identity_of,
    link_or_copy,
    pack_json,
    parse_json,
)
from memgrow.tensor_files import LARGEST_TEXT, check_size

MANIFEST = "manifest.json"
PATIENCE_S = 30.0  # of a writer, while another one writes the same folder
TRIES = 100  # of a reader, while the folder is being replaced
# Bytes of files that are small however much a model has learnt.
SMALL = {MANIFEST: 1 << 20, "config.json": 1 << 24, "encoder.json": 1 << 24, "state.json": 1 << 24}
SHA256 = re.compile("[0-9a-f]{64}")
Found = TypeVar("Found")


class NoVersionError(ModelError):
    """A folder has no earlier version of that number."""


def write_folder(
    path: str | Path,
    files: Mapping[str, Content],
    version: int = 1,
    like: Path | None = None,
    earlier: "Mapping[int, Manifest] | None" = None,
    keep: int | None = None,
) -> None:
    """Write `files`, of that version of their format, and a manifest as the folder `path`: all of it or nothing.

    A file that is stored already is linked, not written again. Files are open to those whom the umask allows and the
    folder that is replaced, or the one that is given as `like`, allowed too. A folder that cannot be replaced, as a
    mount point, gets a new version within, and a manifest that names it.

    `earlier` are those versions of the folder, the one that is replaced among them, that stay within it by these
    numbers; all others are removed. `keep` is noted for the next writer: how many of them are wanted.
    """
    path = Path(os.path.realpath(path))  # of a link, what it points to
    sums = {name: checksum(content) for name, content in files.items()}
    manifest = Manifest(version, sums, keep=keep, earlier=earlier or {})
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
        with _opener(found) as opened:
            manifest = _manifest(opened, found, newest)
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
        with suppress(ModelError), _opener(path) as opened:
            manifest = _manifest(opened, path, newest, number)
            for name, expected in manifest.sha256.items():
                try:
                    with _opened(opened, path, manifest, name) as file:
                        _read(file, path / manifest.folder / name, expected, large=True)
                except ModelError as fault:
                    found.append(str(fault))
        return found or [str(error)]
    return found


def strangers(path: str | Path) -> list[str]:
    """Names in a folder that its manifest does not know: a user's own files."""
    path = Path(os.path.realpath(path))
    manifest = Manifest.of(path)
    return sorted(contents(path) - {MANIFEST, *manifest.sha256})


def stored_at(path: Path, name: str) -> Path:
    """Where a file of a folder lies, be it there or not."""
    return path / Manifest.of(path).folder / name


def write_file(path: Path, data: bytes) -> None:
    """Write a file of a folder that nobody reads yet, and see that it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        flush(file)


@dataclass(frozen=True)
class Manifest:
    """What a folder says of its files: the version of their format, their checksums, and where they lie in it."""

    format: int
    sha256: dict[str, str]
    folder: str = "."
    keep: int | None = None  # how many earlier versions are wanted; None: nobody has said so
    earlier: "Mapping[int, Manifest]" = field(default_factory=dict)  # versions that are there, by their numbers

    @classmethod
    def parse(cls, data: bytes) -> "Manifest":
        """Read it; of what does not make sense a ValueError."""
        try:
            value = parse_json(data)
            earlier = {_number(text): cls._of(one) for text, one in value.get("earlier", {}).items()}
            keep = None if value.get("keep") is None else _number(value["keep"])
            found = replace(cls._of(value), keep=keep, earlier=earlier)
            versions = (found, *earlier.values())
            sums = all(SHA256.fullmatch(one) for version in versions for one in version.sha256.values())
            within = [one.folder for one in versions if one is not found or one.folder != "."]
            inside = all(VERSION.fullmatch(folder) for folder in within) and len(set(within)) == len(within)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError("it is not a manifest") from error
        if not sums or any(type(one.format) is not int or not 0 < one.format < 1 << 31 for one in versions):
            raise ValueError("it is not a manifest")
        if not inside or not all(_is_file_name(name) for one in versions for name in one.sha256):
            raise ValueError("it leads out of the folder")
        return found

    @classmethod
    def _of(cls, value: Any) -> "Manifest":
        return cls(value["format"], dict(value["sha256"]), value.get("folder", "."))

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "sha256": dict(self.sha256),
            **({"folder": self.folder} if self.folder != "." else {}),
            **({"keep": self.keep} if self.keep is not None else {}),
            **({"earlier": {str(n): one.to_json() for n, one in self.earlier.items()}} if self.earlier else {}),
        }

    @classmethod
    def of(cls, path: Path) -> "Manifest":
        """That of a folder; an empty one if there is none, or a damaged one."""
        try:
            with _opener(path) as opened:
                return _manifest(opened, path, sys.maxsize)
        except ModelError:
            return cls(0, {})


def _is_file_name(name: str) -> bool:
    """Whether a name can be that of a file in a folder."""
    try:
        written = name.encode()
    except UnicodeEncodeError:
        return False
    return Path(name).name == name and name not in ("", "..") and b"\0" not in written and len(written) <= 255


def _number(value: str | int) -> int:
    """A number that stands in a manifest."""
    if not str(value).isdecimal() or isinstance(value, bool):
        raise ValueError(f"{value!r} is no number")
    return int(value)


# Reading


def _settled(path: str | Path, read: Callable[[Path], Found]) -> Found:
    """The result of reading a folder; it is read again if it was replaced meanwhile and that did harm."""
    path = Path(os.path.realpath(path))
    for _ in range(TRIES):
        before = _version_at(path)
        try:
            found = path if path.exists() else _put_aside(path)
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
        opened = stack.enter_context(_opener(path))
        manifest = _manifest(opened, path, newest, number)
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


def _manifest(opened: Callable[[str], BufferedReader], path: Path, newest: int, number: int | None = None) -> Manifest:
    """That of a folder that is open, or of its earlier version of that number."""
    try:
        with opened(MANIFEST) as file:
            check_size(file, path / MANIFEST, SMALL[MANIFEST])
            manifest = Manifest.parse(file.read())
    except FileNotFoundError as error:
        raise ModelError(
            f"{path} has no {MANIFEST}: it is not a memgrow model, or was copied in part; copy it again"
        ) from error
    except OSError as error:
        raise ModelError(
            f"{path / MANIFEST} cannot be read ({error.strerror or error}): allow it, or copy the model again"
        ) from error
    except ModelError:
        raise
    except ValueError as error:
        raise ModelError(f"{path / MANIFEST} is damaged: copy the model again, or go back to a saved one") from error
    if number is not None:
        if number not in manifest.earlier:
            raise NoVersionError(f"{path} keeps no version {number}: `memgrow history` shows which there are")
        manifest = manifest.earlier[number]
    if manifest.format > newest:
        raise ModelError(
            f"{path} was written by a newer memgrow (format {manifest.format}; this one reads up to {newest}): "
            "update memgrow"
        )
    return manifest


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
        check_size(file, path, SMALL.get(path.name, LARGEST_TEXT))
        content = StoredFile.of(file, path) if large else file.read()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror or error}): copy the model again") from error
    if checksum(content) != expected:
        raise ModelError(f"{path} is not what was written (its checksum differs): copy it again, or go back")
    return content


def _put_aside(path: Path) -> Path:
    """Where a folder lies while it has lost its name to a new one that has not got it yet."""
    return aside(path) if aside(path).exists() else path


def _version_at(path: Path) -> tuple[str | int, ...] | None:
    """Tells versions of a folder apart, and one that has its name from one that has lost it."""
    for folder in (path, aside(path)):
        with suppress(OSError):
            return folder.name, *identity_of((folder / MANIFEST).stat())
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


def _write_beside(path: Path, files: Mapping[str, Content], manifest: Manifest, like: Path) -> None:
    """Write all of it beside, and let it take the name at the end."""
    with atomic_folder(path, like) as beside:
        earlier = {number: _link_version(path, one, beside) for number, one in manifest.earlier.items()}
        told = pack_json(replace(manifest, earlier=earlier).to_json())
        _write_files(beside, {**files, MANIFEST: told}, like)
        _keep_others(path, beside)


def _write_within(path: Path, files: Mapping[str, Content], manifest: Manifest, like: Path) -> None:
    """Write a version within the folder, and let the manifest name it at the end."""
    version = path / _new_version()
    try:
        version.mkdir(mode=mode_like(like, 0o777))
        _write_files(version, files, like)
        sync_folder(version)
        earlier = {  # those that lie in a folder of their own stay there
            number: one if one.folder != "." else _link_version(path, one, path)
            for number, one in manifest.earlier.items()
        }
        with atomic_open(path / MANIFEST) as file:
            file.write(pack_json(replace(manifest, folder=version.name, earlier=earlier).to_json()))
        sync_folder(path)
    finally:
        _clear_versions(path)


def _link_version(path: Path, old: Manifest, target: Path) -> Manifest:
    """Let a version of one folder be in another as well; its files have two names then, and no second content."""
    new = replace(old, folder=_new_version() if old.folder == "." else old.folder, keep=None, earlier={})
    place = target / new.folder
    place.mkdir(mode=mode_like(path / old.folder, 0o777) | stat.S_IRWXU)
    for name in old.sha256:
        link_or_copy(path / old.folder / name, place / name)
    sync_folder(place)
    return new


def _new_version() -> str:
    return f"version-{secrets.token_hex(4)}"


def _clear_versions(path: Path) -> None:
    """Remove versions that the manifest does not name, files that it says to be in a version, half manifests."""
    manifest = Manifest.of(path)
    if not manifest.format and (path / MANIFEST).exists():
        return  # it is damaged, and may have named any of them
    versions = (manifest, *manifest.earlier.values())
    folders, names = {one.folder for one in versions}, {name for one in versions for name in one.sha256}
    for found in path.iterdir():
        if VERSION.fullmatch(found.name) and found.name not in folders:
            shutil.rmtree(found, ignore_errors=True)
        elif found.name.startswith(f".{MANIFEST}.") or (manifest.folder != "." and found.name in names):
            with suppress(OSError):
                found.unlink()


def _keep_others(old: Path, new: Path) -> None:
    """Copy what a user has put beside our files."""
    for name in strangers(old) if (old / MANIFEST).is_file() else ():
        if not (new / name).exists():
            (shutil.copytree if (old / name).is_dir() else shutil.copy2)(old / name, new / name)
