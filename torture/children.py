"""Work in forks of this process, which has imported memgrow: killed, stopped or refused room at file operations."""

import ctypes
import errno
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch._dynamo  # noqa: F401 - so that no fork imports it in its first training step

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
MAKING = frozenset({"open", "os.mkdir", "os.link", "os.symlink"})  # what needs room on a disk
CHANGING = MAKING | {"os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate"}
HANGS_S = 300.0
NOT_BEGUN = 99  # exit code of a child that was interrupted before its work


@dataclass(frozen=True)
class Ended:
    """The exit code, or minus the number of the signal, and what was written to standard output and error."""

    code: int
    output: str

    @property
    def refused(self) -> bool:
        """Whether it ended with exit code 2 and one line."""
        return self.code == 2 and self.output.startswith("memgrow: ") and self.output.count("\n") == 1


class Child:
    """A fork that does some work and ends; `prepare` is called in it first."""

    def __init__(self, work: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `ended`
        self._code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until a command begins, see `memgrow`
        self.pid = os.fork()
        if self.pid == 0:
            self._live(work, prepare)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _live(self, work: Callable[[], object], prepare: Callable[[], object]) -> None:
        code = 1
        try:
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # die with the parent
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for stream in (1, 2):
                os.dup2(self._output.fileno(), stream)
            sys.stdout, sys.stderr = (open(stream, "w", buffering=1, closefd=False) for stream in (1, 2))  # noqa: SIM115
            prepare()
            work()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def alive(self, seconds: float = 0.0) -> bool:
        """Whether it is still at work after so many seconds."""
        until = time.monotonic() + seconds
        while self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= until:
                return True
            time.sleep(0.002)
        return False

    def stops(self) -> bool:
        """Wait until it has stopped itself (SIGSTOP); False if it ended without."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._code = os.waitstatus_to_exitcode(status)
        return self._code is None

    def send(self, number: signal.Signals) -> None:
        if self._code is None:
            os.kill(self.pid, number)

    def ended(self, seconds: float = HANGS_S) -> Ended:
        hung = self.alive(seconds)
        if hung:
            self.send(signal.SIGKILL)
            self.alive(60)
        self._output.seek(0)
        output = self._output.read().decode(errors="replace")
        self._output.close()
        assert not hung, f"hung: {output}"
        assert self._code is not None
        return Ended(self._code, output)


def run(work: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> Ended:
    return Child(work, prepare).ended()


def memgrow(*words: object) -> Callable[[], None]:
    """A command, as work for a child."""

    def work() -> None:
        from memgrow.__main__ import main

        sys.argv = ["memgrow", *map(str, words)]
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        except KeyboardInterrupt:
            os._exit(NOT_BEGUN)
        main()

    return work


# What happens to a child at its file operations


def at_operations(action: Callable[[int], None], below: Path, events: Collection[str] = CHANGING) -> None:
    """Call the action before each operation that changes something below a folder, with the operation's number.

    The operation raises what the action raises. An audit hook cannot be removed: for children only.
    """
    count, root = 0, os.path.realpath(below)

    def watch(event: str, given: tuple[Any, ...]) -> None:
        nonlocal count
        if event in events and concerns(event, given, root):
            count += 1
            action(count - 1)

    sys.addaudithook(watch)


def concerns(event: str, given: tuple[Any, ...], root: str) -> bool:
    if event == "open" and not (isinstance(given[2], int) and given[2] & WRITES):
        return False
    names = given[:1] if event == "open" else given[:2]
    paths = [os.fsdecode(name) for name in names if isinstance(name, str | bytes | os.PathLike)]
    # A relative path belongs to an open folder, as in shutil.rmtree.
    return any(not path.startswith("/") or os.path.realpath(path).startswith(root) for path in paths)


def signal_before(number: int, below: Path, by: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Prepare a child to be killed, or stopped, before the operation of that number."""

    def act(reached: int) -> None:
        if reached == number:
            os.kill(os.getpid(), by)

    return lambda: at_operations(act, below)


def no_room_from(number: int, below: Path, error: int = errno.ENOSPC) -> Callable[[], None]:
    """Prepare a child to find no room from the operation of that number on."""

    def act(reached: int) -> None:
        if reached >= number:
            raise OSError(error, os.strerror(error))

    return lambda: at_operations(act, below, MAKING)


def count_operations(work: Callable[[], object], below: Path, events: Collection[str] = CHANGING) -> int:
    """How many operations some work takes, which must succeed."""
    with tempfile.NamedTemporaryFile() as file:

        def act(number: int) -> None:
            os.pwrite(file.fileno(), f"{number + 1:9}".encode(), 0)

        ended = run(work, lambda: at_operations(act, below, events))
        assert ended.code == 0, ended.output
        return int(file.read() or 0)


def bounded(seconds: int = 20, more_memory: int = 3 << 30) -> None:
    """Bound the processor's time and the memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if pages:
        most = pages * resource.getpagesize() + more_memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def mount_tmpfs(place: Path, options: str, again: bool = False) -> None:
    """Mount a file system such as `size=64k,nr_inodes=20`, for this process and its children, or resize it."""
    libc = ctypes.CDLL(None, use_errno=True)
    private, remount = ctypes.c_ulong(1 << 18 | 1 << 14), ctypes.c_ulong(1 << 5 if again else 0)
    if not again and (libc.unshare(0x20000) != 0 or libc.mount(b"none", b"/", None, private, None) != 0):
        raise OSError(errno.EPERM, "nothing can be mounted here")
    if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", remount, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"{place} cannot be mounted")


def can_mount() -> bool:
    return sys.platform == "linux" and run(lambda: mount_tmpfs(Path(tempfile.gettempdir()), "size=16k")).code == 0
