"""The cache of compiled kernels: machine code that a GPU runs for this user, so that nobody else may have put it there.

It is a folder of the user's own that nobody else can enter. Each file begins with a checksum; one that is damaged, cut
short by a power cut, or owned by somebody else counts as none. A cache that cannot be had is only slower.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from memgrow.data.disk import atomic_write, cache_folder, open_own
from memgrow.errors import SettingsError

OWN = 0o700  # the mode of a folder that only its owner can enter
CHECKSUM = hashlib.sha256().digest_size
MOST = 1 << 28  # bytes of a kernel; they have some hundred thousand


def find(name: str) -> bytes | None:
    """The code that was kept under that name, if it is whole and our own."""
    with suppress(OSError, SettingsError):
        with open_own(_folder() / name) as file:
            found = os.fstat(file.fileno())
            if not (stat.S_ISREG(found.st_mode) and _is_ours(found) and found.st_size <= MOST):
                return None
            checksum, code = file.read(CHECKSUM), file.read()
        if code and checksum == _checksum(name, code):
            return code
    return None


def keep(name: str, code: bytes) -> None:
    """Keep code under that name for the next time, whole or not at all."""
    with suppress(OSError, SettingsError):
        atomic_write(_folder() / name, _checksum(name, code) + code)


def _folder() -> Path:
    """The folder of the cache, made if need be, which only this user can enter; an error if it is not ours."""
    folder = cache_folder("kernels")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(OWN)
    found = folder.lstat()  # of a link, the link itself: it may lead anywhere
    if not (stat.S_ISDIR(found.st_mode) and _is_ours(found)):
        raise PermissionError(f"{folder} is not a folder of this user's own")
    if stat.S_IMODE(found.st_mode) != OWN:
        folder.chmod(OWN)
    return folder


def _is_ours(found: os.stat_result) -> bool:
    """Whether a file or folder is this user's own."""
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


def _checksum(name: str, code: bytes) -> bytes:
    """With the name, so that code which is whole is not taken for that of another kernel."""
    return hashlib.sha256(name.encode() + b"\0" + code).digest()
