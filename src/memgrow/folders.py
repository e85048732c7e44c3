"""A folder that takes the place of another in one step, and what a killed writer leaves beside it."""

import ctypes
import errno
import hashlib
import itertools
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

MANIFEST = "manifest.json"  # the file that tells a folder of memgrow's from others
# What stands within a folder that cannot be replaced: its versions, and what else stands beside.
LOCK, ADAPTING = ".lock", "adapting"
VERSION = re.compile(r"version-[0-9a-f]{8}")
OURS = re.compile(rf"{re.escape(LOCK)}(ed)?|{ADAPTING}|\.{ADAPTING}\..+|\..+\.(writing|trying)|{VERSION.pattern}")
TRIED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}  # of one that would; ENOENT: it is being replaced just now
FIXED = {errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS}  # of a rename that will never succeed

_count = itertools.count()


@contextmanager
def atomic_folder(path: Path, like: Path | None = None) -> Iterator[Path]:
    """An empty folder to fill, which becomes `path` at the end of the block; after an error `path` is as it was.

    It is open to those whom the umask allows and, if there is a folder `like` it, that one too.
    """
    recover(path)
    clear_leftovers(path, whole=False)
    beside = unique_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.mkdir(mode=mode_like(like or path, 0o777) | stat.S_IRWXU)  # a read-only one is filled, too
        yield beside
        sync_folder(beside)
        _put_in_place(beside, path)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def contents(path: Path) -> set[str]:
    """The names in a folder, without what memgrow keeps there for itself."""
    return {found.name for found in path.iterdir() if not OURS.fullmatch(found.name)}


def mode_like(path: Path, widest: int) -> int:
    """The widest mode that a file or folder may have beside `path`; the umask narrows it further."""
    try:
        return path.stat().st_mode & widest
    except OSError:
        return widest


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


def rename(old: Path, new: Path) -> None:
    """Give a folder another name."""
    old.rename(new)


def replaceable(path: Path) -> bool:
    """Whether another folder can take this one's name, tried without doing it.

    It cannot for a mount point, for a folder in a lower layer of overlayfs, or below a folder that is read-only. Where
    that cannot be found out, as on a full disk, there is an OSError: the place of the lock depends on the answer.
    """
    if os.name != "posix" or not path.is_dir():
        return True
    target = unique_beside(path, "trying")  # which nobody else removes while we live
    obstacle = target / "x"
    try:
        obstacle.mkdir(parents=True)
        rename(path, target)  # onto a folder that is not empty: never done, but refused for the first reason there is
    except OSError as error:
        if error.errno not in TRIED | FIXED:
            raise
        return error.errno in TRIED
    else:
        rename(target, path)
        return True
    finally:
        _remove_empty(obstacle, target)


def sync_folder(path: Path) -> None:
    """See that the names in a folder are on the disk."""
    if os.name != "posix":
        return
    with suppress(OSError):  # some file systems cannot
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


# What a killed writer leaves


def put_aside(path: Path) -> Path | None:
    """Where the old folder lies that has lost its name to a new one, which a killed writer never gave it."""
    found = _all_aside(path)
    # An earlier memgrow called it so. A user may have a folder of that name as well, and even a copy of the model.
    before = path.with_name(f".{path.name}.old")
    if not found and not path.exists() and (before / MANIFEST).is_file():
        found = [before]
    return max(found, key=_written, default=None)


def recover(path: Path) -> None:
    """Put the old folder back if there is no new one, and remove it if there is."""
    if not path.exists() and (old := put_aside(path)) is not None:
        rename(old, path)
    for left in _all_aside(path):
        shutil.rmtree(left, ignore_errors=True)


def _all_aside(path: Path) -> list[Path]:
    """Old folders that writers put aside: several, if one of them could not be removed."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.\d+-\d+\.[0-9a-f]{{8}}\.old")
    with suppress(OSError):  # the folder above cannot be listed, or is not there
        return [path.with_name(name) for name in os.listdir(path.parent) if pattern.fullmatch(name)]  # noqa: PTH208
    return []


def _written(folder: Path) -> int:
    """When a folder was written; 0 of one that has been removed in part."""
    try:
        return (folder / MANIFEST).stat().st_mtime_ns
    except OSError:
        return 0


def unique_beside(path: Path, doing: str = "writing") -> Path:
    """A name for what this process writes, which tells whose it is."""
    return path.with_name(f".{path.name}.{os.getpid()}-{next(_count)}.{_machine()}.{doing}")


def clear_leftovers(path: Path, whole: bool) -> None:
    """Remove what killed processes have written beside a folder.

    With `whole` nobody else can be writing; otherwise only what belonged to a process of this machine that is dead.
    """
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(?:(\d+)-\d+\.([0-9a-f]{{8}})\.)?(writing|trying)")
    with suppress(OSError):  # the folder above cannot be listed, or is not there
        for name in os.listdir(path.parent):  # noqa: PTH208 - names alone, quick where there are many
            if (found := pattern.fullmatch(name)) is None:
                continue
            left, dead = path.with_name(name), found[2] == _machine() and not is_alive(int(found[1]))
            if found[3] == "writing" and dead and left.is_file():  # a lock that it was taking over
                left.unlink(missing_ok=True)
            elif found[3] == "writing" and (whole or dead):
                shutil.rmtree(left, ignore_errors=True)
            elif found[3] == "trying" and dead:  # who waits for the lock tries as well
                _remove_empty(left / "x", left)


def _remove_empty(*folders: Path) -> None:
    """Remove folders if they are empty: nothing can be lost by it."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def is_alive(process: int) -> bool:
    """Whether a process of this machine runs; where that cannot be asked, it does."""
    if os.name != "posix" or process <= 0:
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@cache
def _machine() -> str:
    """Tells machines apart whose processes have numbers of their own; containers of one host are such."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - it is no path
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{platform.node()} {namespace}".encode()).hexdigest()[:8]


def _put_in_place(beside: Path, path: Path) -> None:
    """Give the new folder the name of the old one, so that a reader finds one or the other at every moment."""
    if not path.exists():
        rename(beside, path)
    elif not exchange(beside, path):
        # Where the system cannot exchange two names there is a moment without the name, but no half folder. A run that
        # is killed in that moment leaves the old folder under another name, and `recover` gives it its own back.
        rename(path, unique_beside(path, "old"))
        try:
            rename(beside, path)
        finally:
            recover(path)
