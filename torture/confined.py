"""Work in a forked child with bounds on its time and memory, and under the eyes of an audit hook.

The child has all modules of its parent, so that one costs milliseconds; what it breaks, it breaks for itself.
"""

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torture.budget import tail

CPU_S = 10  # of a child: nothing that it is given takes a second on an idle machine
WALL_S = 120  # likewise, where it waits and uses no processor; other processes may hold it up
MEMORY = 3 << 30  # bytes of addresses beyond what the parent has
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Events of Python's audit hook after which something has run, changed or left this process.
FORBIDDEN = (
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"),
    *("os.remove", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.chown"),
    *("shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.copytree", "shutil.unpack_archive"),
    *("pickle.find_class", "marshal.loads", "ctypes.dlopen", "cpython.run_command", "code.__new__"),
    *("socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request", "http.client.connect"),
)
# Who may compile text: the machinery of imports, and libraries that write classes.
WRITERS = ("dataclasses.py", "collections/__init__.py", "<frozen importlib._bootstrap>", "typing.py", "inspect.py")


@dataclass(frozen=True)
class Outcome:
    """How a piece of work ended: what it gave, or the traceback or signal that ended it; and what it did unasked."""

    value: Any
    fault: str | None
    seconds: float  # of the processor
    events: Sequence[str] = field(default=())  # that were forbidden


class Watch:
    """Takes note of forbidden events."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if event in FORBIDDEN:
            if not self._by_import(event):
                self.seen.append(f"{event} {given!r:.200}")
        elif event == "open" and isinstance(given[2], int) and given[2] & WRITES:
            if not isinstance(given[0], int) and given[0] != os.devnull:
                self.seen.append(f"open for writing {given[0]!r}")
        elif event in ("exec", "compile"):
            caller = sys._getframe(1).f_code.co_filename
            if not caller.startswith("<frozen ") and not caller.endswith(WRITERS):
                self.seen.append(f"{event} in {caller} {given!r:.200}")

    def _by_import(self, event: str) -> bool:
        """Whether it is the machinery of imports that reads code or a library of an installed package."""
        if event not in ("marshal.loads", "ctypes.dlopen", "code.__new__"):
            return False
        return "importlib" in sys._getframe(2).f_code.co_filename


def confined(work: Callable[[], Any], cpu_s: int = CPU_S, wall_s: float = WALL_S, watched: bool = True) -> Outcome:
    """Call it in a child; it gives something that JSON can hold. If it is `watched`, it should change nothing."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _child(work, write, cpu_s, watched)
    os.close(write)
    content, in_time = _gather(read, time.monotonic() + wall_s)
    os.close(read)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    if in_time and os.WIFEXITED(status) and not os.WEXITSTATUS(status):
        told = json.loads(content)
        return Outcome(told["value"], told["fault"], seconds, told["events"])
    ended = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"code {os.WEXITSTATUS(status)}"
    return Outcome(None, f"ended by {ended} after {seconds:.1f} s of the processor" if in_time else "hung", seconds)


def _child(work: Callable[[], Any], write: int, cpu_s: int, watched: bool) -> None:
    """Do the work, tell of it, and be gone."""
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        most = _addresses() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        watch = Watch()
        if watched:
            sys.addaudithook(watch)
        value, fault = None, None
        try:
            value = work()
        except BaseException:
            fault = tail(traceback.format_exc(), 3000)
        told = json.dumps({"value": value, "fault": fault, "events": watch.seen}).encode()
        while told:
            told = told[os.write(write, told) :]
        code = 0
    finally:
        os._exit(code)


def _gather(read: int, until: float) -> tuple[bytes, bool]:
    """What comes out of a pipe until its other end is closed; and whether that was in time."""
    content = b""
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return content, False
        chunk = os.read(read, 1 << 16)
        if not chunk:
            return content, True
        content += chunk


def _addresses() -> int:
    """Bytes of addresses that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
