"""One process at a time changes a folder: who changes it holds its lock from before it is read until it is written.

The lock is `flock` on a file beside the folder (".m.lock" of "m"), or within a folder that cannot be replaced. The
system lets go of it when its holder dies, so that a file that was left behind blocks nobody. A file system without
locks has a file that only one process can create (".m.locked"); there a holder is known to be dead only on its own
machine, and elsewhere the file of a dead one must be removed by hand. Readers need no lock.
"""

import errno
import json
import os
import platform
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from memgrow.errors import ModelError
from memgrow.folders import ADAPTING, LOCK, clear_leftovers, is_alive, recover, replaceable, unique_beside

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

PAUSE_S = 0.02  # between two tries
UNSIGNED_S = 2.0  # after which a lock's file that nobody has signed is of a process that died in between
DYING_S = 3.0  # that a process which has been killed may hold on to its lock, while the system takes it apart
WITHOUT_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}

_held = threading.local()


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock, as it has written into the lock's file."""

    pid: int
    host: str
    since: str
    born: str | None = None  # tells processes apart that had this number one after the other

    @classmethod
    def ours(cls) -> "Holder":
        return cls(os.getpid(), platform.node(), time.strftime("%Y-%m-%d %H:%M:%S"), _born(os.getpid()))

    @classmethod
    def read(cls, place: Path) -> "Holder | None":
        try:
            return cls(**json.loads(place.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def is_dead(self) -> bool:
        """Whether it is known to be dead: only of processes on this machine can that be known."""
        if self.host != platform.node() or not isinstance(self.pid, int):
            return False
        return not is_alive(self.pid) or (self.born is not None and _born(self.pid) not in (None, self.born))


@dataclass(frozen=True)
class _Lock:
    place: Path
    file: int

    def release(self) -> None:
        if fcntl is None:
            os.close(self.file)  # a file that is open cannot be removed there
        with suppress(OSError):
            self.place.unlink()  # while it is still ours; who has it open already sees that the name has gone
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(self.file, fcntl.LOCK_UN)  # a child process may have the file open still
            os.close(self.file)


@contextmanager
def hold(folder: str | Path, wait: float | None = None, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock of a folder, be it there or not; an error says who has it after `wait` seconds, or a moment.

    What killed processes left beside the folder is cleared. A thread that holds the lock may ask for it again.
    `on_wait` is told once whom we wait for.
    """
    path = Path(os.path.realpath(folder))
    ours: dict[Path, int] = _held.__dict__.setdefault("paths", {})
    if ours.get(path) == os.getpid():  # another number: we are the child of the process that holds it
        yield
        return
    made = [parent for parent in path.parents if not parent.exists()]
    try:
        lock = _acquire(path, DYING_S if wait is None else wait, on_wait)
        ours[path] = os.getpid()
        try:
            _clear(path)
            yield
        finally:
            del ours[path]
            lock.release()
    finally:
        for parent in made:  # those that we made and that stayed empty
            with suppress(OSError):
                parent.rmdir()


def _acquire(path: Path, wait: float, on_wait: Callable[[str], None] | None) -> _Lock:
    until = time.monotonic() + wait
    if path.is_dir() and not os.access(path, os.W_OK | os.X_OK):
        raise ModelError(f"{path} is read-only: allow writing to it (chmod u+w), or work on a copy of it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = path.with_name(f".{path.name}.lock") if replaceable(path) else path / LOCK
        while (lock := _try_flock(place)) is None:
            if time.monotonic() >= until:
                raise ModelError(_busy(path, place, "wait for it (`memgrow adapt --wait`) or stop it"))
            if on_wait is not None:
                on_wait(_busy(path, place, "waiting for it"))
                on_wait = None
            time.sleep(PAUSE_S)
    except OSError as error:
        raise ModelError(
            f"nothing can be written at {path} ({error.strerror or error}): allow it, or choose another place"
        ) from error
    return lock


def _try_flock(place: Path) -> _Lock | None:
    """The lock, if nobody has it."""
    if fcntl is None:
        return _try_exclusive(place)
    while True:
        file = _open(place)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), place.stat()):
                return _signed(_Lock(place, file))
        except BlockingIOError:
            os.close(file)
            return None
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(file)
            if error.errno not in WITHOUT_LOCKS:
                raise
            with suppress(OSError):
                place.unlink()
            return _try_exclusive(place)
        os.close(file)  # the holder before us removed it after we had opened it: there is another, or none


def _open(place: Path) -> int:
    try:
        return os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        if not place.exists():
            raise
        return os.open(place, os.O_RDONLY)  # another user's, which can be locked all the same


def _try_exclusive(place: Path) -> _Lock | None:
    """The same where the file system has no locks: the file itself is the lock."""
    place = _exclusive(place)
    try:
        lock = _Lock(place, os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        holder = Holder.read(place)
    else:
        try:
            ours = _sign(lock)
        except OSError:  # a full disk: nobody could tell whose it is
            lock.release()
            raise
        if Holder.read(place) == ours:
            return lock
        os.close(lock.file)  # it took so long to sign it that another process has taken us for dead
        return None
    if holder.is_dead() if holder is not None else _was_left_unsigned(place):
        # Another process may be doing the same, and have its own lock there by now: then it is given back.
        taken = unique_beside(place)
        with suppress(OSError):
            place.rename(taken)
            if Holder.read(taken) != holder:
                os.link(taken, place)
        taken.unlink(missing_ok=True)
    return None


def _signed(lock: _Lock) -> _Lock:
    with suppress(OSError):  # a full disk: it is a lock all the same
        _sign(lock)
    return lock


def _sign(lock: _Lock) -> Holder:
    """Write into a lock's file whose it is."""
    ours = Holder.ours()
    os.ftruncate(lock.file, 0)
    os.lseek(lock.file, 0, os.SEEK_SET)
    os.write(lock.file, json.dumps(asdict(ours)).encode())
    return ours


def _was_left_unsigned(place: Path) -> bool:
    """Whether the process that made the lock's file died before it had written anything there."""
    try:
        found = place.stat()
    except OSError:
        return False
    return found.st_size == 0 and time.time() - found.st_mtime > UNSIGNED_S


def _born(process: int) -> str | None:
    """When a process of this machine began, on a clock that nobody sets; None where that cannot be asked."""
    try:
        told, boot = Path(f"/proc/{process}/stat"), Path("/proc/sys/kernel/random/boot_id")
        return f"{boot.read_text().strip()} {told.read_text().rpartition(')')[2].split()[19]}"
    except (OSError, IndexError, ValueError):
        return None


def _exclusive(place: Path) -> Path:
    return place.with_name(place.name + "ed")


def _busy(path: Path, place: Path, advice: str) -> str:
    holder = Holder.read(place) or Holder.read(_exclusive(place))
    who = f"process {holder.pid} on {holder.host} since {holder.since}" if holder else "another process"
    left = f", or remove {_exclusive(place)} if it is dead" if _exclusive(place).exists() else ""
    return f"{path} is being changed by {who}: {advice}{left}"


def _clear(path: Path) -> None:
    """Remove what killed processes left of the folder and of its unfinished training: nobody else is at work."""
    for place in (path.with_name(f".{path.name}.lock"), path / LOCK):
        clear_leftovers(_exclusive(place), whole=False)  # who waits may be taking it over
    for folder in (path, path.with_name(f"{path.name}.adapting"), path / ADAPTING):
        recover(folder)
        clear_leftovers(folder, whole=True)
        if folder != path:
            shutil.rmtree(folder.with_name(f".{folder.name}.done"), ignore_errors=True)
            with suppress(OSError):
                folder.with_name(f".{folder.name}.lock").unlink()
