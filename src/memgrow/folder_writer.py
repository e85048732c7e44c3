"""A folder with a manifest is written whole or not at all, with the earlier versions that it is to keep."""

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from memgrow.errors import ModelError
from memgrow.folders import VERSION, atomic_folder, contents, mode_like, replaceable, sync_folder
from memgrow.locking import hold
from memgrow.manifest import MANIFEST, Manifest, stored_at, strangers
from memgrow.storage import Content, StoredFile, atomic_open, flush, link_or_copy, pack_json, size_of
from memgrow.unwritten_tensors import UnwrittenTensors

PATIENCE_S = 30.0  # of a writer, while another one writes the same folder


def write_folder(
    path: str | Path,
    files: Mapping[str, Content],
    version: int = 1,
    like: Path | None = None,
    earlier: Mapping[int, Manifest] | None = None,
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
    manifest = Manifest(version, {}, keep=keep, earlier=earlier or {})  # checksums come as files are written
    with hold(path, PATIENCE_S):
        if path.exists() and not (path / MANIFEST).is_file() and (not path.is_dir() or contents(path)):
            raise ModelError(
                f"{path} is there already and is not a memgrow model: choose another name, or move it away"
            )
        try:
            (_write_beside if replaceable(path) else _write_within)(path, files, manifest, like or path)
        except OSError as error:
            size = sum(map(size_of, files.values()))
            raise ModelError(
                f"could not write {size / 1e6:.1f} MB as {path} ({error.strerror or error}): make room or choose "
                "another place; what was there before is unchanged"
            ) from error


def write_file(path: Path, data: bytes | UnwrittenTensors) -> str:
    """Write a file of a folder that nobody reads yet, and see that it is on the disk; its checksum."""
    with path.open("wb") as file:
        if isinstance(data, bytes):
            file.write(data)
            sha256 = hashlib.sha256(data).hexdigest()
        else:
            sha256 = data.write(file)
        flush(file)
    return sha256


def _write_files(folder: Path, files: Mapping[str, Content], old: Path) -> dict[str, str]:
    """Write or link files into a folder; their checksums."""
    sums = {}
    for name, content in files.items():
        if isinstance(content, StoredFile):
            content.link(folder / name)  # it keeps its mode, which is that of all its names
            sums[name] = content.sha256
            continue
        sums[name] = write_file(folder / name, content)
        narrow(folder / name, old)
    return sums


def narrow(path: Path, old: Path) -> None:
    """Take from a file what its predecessor, or the old manifest, did not allow."""
    known = stored_at(old, path.name)
    mode = path.stat().st_mode & 0o777
    if (allowed := mode_like(known if known.exists() else old / MANIFEST, mode)) != mode:
        path.chmod(allowed)


def _write_beside(path: Path, files: Mapping[str, Content], manifest: Manifest, like: Path) -> None:
    """Write all of it beside, and let it take the name at the end."""
    with atomic_folder(path, like) as beside:
        earlier = {number: _link_version(path, one, beside) for number, one in manifest.earlier.items()}
        sums = _write_files(beside, files, like)
        told = pack_json(replace(manifest, sha256=sums, earlier=earlier).to_json())
        _write_files(beside, {MANIFEST: told}, like)
        _keep_others(path, beside)


def _write_within(path: Path, files: Mapping[str, Content], manifest: Manifest, like: Path) -> None:
    """Write a version within the folder, and let the manifest name it at the end."""
    version = path / _new_version()
    try:
        version.mkdir(mode=mode_like(like, 0o777))
        sums = _write_files(version, files, like)
        sync_folder(version)
        earlier = {  # those that lie in a folder of their own stay there
            number: one if one.folder != "." else _link_version(path, one, path)
            for number, one in manifest.earlier.items()
        }
        with atomic_open(path / MANIFEST) as file:
            file.write(pack_json(replace(manifest, sha256=sums, folder=version.name, earlier=earlier).to_json()))
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


def clear_versions(path: Path) -> None:
    """Remove versions that the manifest does not name, files that it says to be in a version, half manifests.

    A writer does so at its end; one that was killed before it leaves this to whoever holds the folder's lock next.
    """
    if (path / MANIFEST).is_file():
        _clear_versions(path)


def _clear_versions(path: Path) -> None:
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
    """Copy what a user has put beside our files; links stay links, wherever they point to."""
    for name in strangers(old) if (old / MANIFEST).is_file() else ():
        theirs = old / name
        if (new / name).exists():
            continue
        if theirs.is_dir() and not theirs.is_symlink():
            shutil.copytree(theirs, new / name, symlinks=True)
        else:
            shutil.copy2(theirs, new / name, follow_symlinks=False)
