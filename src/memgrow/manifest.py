"""A folder of files with a manifest that has their checksums: written whole or not at all, read only if it is whole."""

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from memgrow.errors import ModelError
from memgrow.folders import VERSION, aside, atomic_folder, contents, mode_like, replaceable, sync_folder
from memgrow.locking import hold
from memgrow.storage import Content, StoredFile, atomic_open, checksum, flush, identity_of, pack_json, parse_json
from memgrow.tensor_files import LARGEST_TEXT, check_size

MANIFEST = "manifest.json"
PATIENCE_S = 30.0  # of a writer, while another one writes the same folder
TRIES = 100  # of a reader, while the folder is being replaced
# Bytes of files that are small however much a model has learnt.
SMALL = {MANIFEST: 1 << 20, "config.json": 1 << 24, "encoder.json": 1 << 24, "state.json": 1 << 24}
SHA256 = re.compile("[0-9a-f]{64}")


def write_folder(path: str | Path, files: Mapping[str, Content], version: int = 1, like: Path | None = None) -> None:
    """Write `files`, of that version of their format, and a manifest as the folder `path`: all of it or nothing.

    A file that is stored already is linked, not written again. Files are open to those whom the umask allows and the
    folder that is replaced, or the one that is given as `like`, allowed too. A folder that cannot be replaced, as a
    mount point, gets a new version within, and a manifest that names it.
    """
    path = Path(os.path.realpath(path))  # of a link, what it points to
    manifest = {"format": version, "sha256": {name: checksum(content) for name, content in files.items()}}
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


def find_damage(path: str | Path, newest: int = 1, large: Collection[str] = ()) -> list[str]:
    """All that keeps a folder from being read, a sentence for each; what a writer replaces meanwhile is none."""
    path = Path(os.path.realpath(path))
    found: list[str] = []
    try:
        read_folder(path, newest, large)
    except ModelError as error:
        with suppress(ModelError), _opener(path) as opened:
            manifest = _manifest(opened, path, newest)
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

    @classmethod
    def parse(cls, data: bytes) -> "Manifest":
        """Read it; of what does not make sense a ValueError."""
        try:
            value = parse_json(data)
            found = cls(value["format"], dict(value["sha256"]), value.get("folder", "."))
            sums = all(SHA256.fullmatch(one) for one in found.sha256.values())
            inside = found.folder == "." or VERSION.fullmatch(found.folder) is not None
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError("it is not a manifest") from error
        if not sums or type(found.format) is not int or not 0 < found.format < 1 << 31:
            raise ValueError("it is not a manifest")
        if not inside or not all(map(_is_file_name, found.sha256)):
            raise ValueError("it leads out of the folder")
        return found

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


# Reading


def _read_version(path: Path, newest: int, large: Collection[str]) -> dict[str, Content]:
    if not path.exists():
        raise ModelError(f"there is no model at {path}: check the name, or create it with `memgrow adapt`")
    with ExitStack() as stack:
        opened = stack.enter_context(_opener(path))
        manifest = _manifest(opened, path, newest)
        # All are opened before any is read: then it does not matter that a writer removes them.
        files = {name: stack.enter_context(_opened(opened, path, manifest, name)) for name in manifest.sha256}
        return {
            name: _read(file, path / manifest.folder / name, manifest.sha256[name], name in large)
            for name, file in files.items()
        }


def _manifest(opened: Callable[[str], BufferedReader], path: Path, newest: int) -> Manifest:
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
        with atomic_open(path / MANIFEST) as file:
            file.write(pack_json({**manifest, "folder": version.name}))
        sync_folder(path)
    finally:
        _clear_versions(path)


def _clear_versions(path: Path) -> None:
    """Remove versions that the manifest does not name, files that it says to be in a version, half manifests."""
    manifest = Manifest.of(path)
    for found in path.iterdir():
        if VERSION.fullmatch(found.name) and found.name != manifest.folder:
            shutil.rmtree(found, ignore_errors=True)
        elif found.name.startswith(f".{MANIFEST}.") or (manifest.folder != "." and found.name in manifest.sha256):
            with suppress(OSError):
                found.unlink()


def _keep_others(old: Path, new: Path) -> None:
    """Copy what a user has put beside our files."""
    for name in strangers(old) if (old / MANIFEST).is_file() else ():
        if not (new / name).exists():
            (shutil.copytree if (old / name).is_dir() else shutil.copy2)(old / name, new / name)
