"""Small file systems (tmpfs) in a name space that ends with its process, where the system lets a process mount."""

import ctypes
import os
import sys
from pathlib import Path

from torture.children import in_child

NEW_MOUNTS, PRIVATE, RECURSIVE, REMOUNT, READ_ONLY = 0x20000, 1 << 18, 1 << 14, 1 << 5, 1


class CannotMountError(OSError):
    """The system does not let this process mount."""


def mount_alone() -> None:
    """What this process mounts from now on is seen by it and its children alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not sys.platform.startswith("linux") or libc.unshare(NEW_MOUNTS) != 0:
        raise CannotMountError("nothing can be mounted here")
    _mount("none", "/", None, PRIVATE | RECURSIVE)


def mount_tmpfs(place: Path, options: str) -> None:
    """Mount an empty file system with limits, as `size=16k,nr_inodes=20`."""
    _mount("tmpfs", place, "tmpfs", 0, options)


def remount_tmpfs(place: Path, options: str, read_only: bool = False) -> None:
    """Give it other limits."""
    _mount("tmpfs", place, "tmpfs", REMOUNT | (READ_ONLY if read_only else 0), options)


def unmount(place: Path) -> None:
    ctypes.CDLL(None, use_errno=True).umount(os.fsencode(place))


def can_mount() -> bool:
    return in_child(_try, quiet=True) == 0


def _try() -> None:
    mount_alone()
    mount_tmpfs(Path("/tmp"), "size=16k")


def _mount(source: str, target: str | Path, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    data = None if options is None else options.encode()
    if ctypes.CDLL(None, use_errno=True).mount(*words, ctypes.c_ulong(flags), data) != 0:
        raise CannotMountError(ctypes.get_errno(), f"{target} cannot be mounted")
