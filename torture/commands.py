"""`memgrow` as a command that can be stopped: a true one, or a fork of this process, which has imported everything."""

import ctypes
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import memgrow.cli.learning  # noqa: F401 - for the forks, as a command imports what it needs when it is called
import torch._dynamo  # noqa: F401 - for the forks, whose first training step would import it, for a second or two

from memgrow.cli import main
from memgrow.data.disk import atomic_write

TRUE = (sys.executable, "-c", "from memgrow.cli import main; main()")
NOT_BEGUN = 99  # exit code of a fork that was stopped before the command began
SLICE_S = 0.002  # between two looks


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or minus the signal's number, and what it said."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """Whether it ended with one sentence."""
        return self.code == 2 and self.err.startswith("memgrow: ") and self.err.count("\n") == 1

    @property
    def last_line(self) -> str:
        return (self.err.strip() or self.out.strip()).rpartition("\n")[2]


class Running:
    """A command that is under way; what it says goes to two files."""

    def __init__(self, pid: int, said: Path) -> None:
        self.pid, self.said, self.began = pid, said, time.monotonic()
        self._code: int | None = None

    def code(self) -> int | None:
        """Its exit code, if it has ended."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, seconds: float = 600.0) -> bool:
        """Wait for its end; False if it is still at work after so many seconds."""
        until = time.monotonic() + seconds
        while self.code() is None:
            if time.monotonic() >= until:
                return False
            time.sleep(SLICE_S)
        return True

    def stops(self) -> bool:
        """Wait until it has stopped itself; False if it ended without."""
        while self.code() is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return True
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            time.sleep(SLICE_S)
        return False

    def says(self, words: str, seconds: float) -> bool:
        """Wait until it has said something, however it broke its lines."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.code() is None:
            if words in " ".join(self.said.with_suffix(".out").read_text(errors="replace").split()):
                return True
            time.sleep(SLICE_S)
        return False

    def send(self, number: signal.Signals) -> None:
        if self.code() is None:
            os.kill(self.pid, number)

    def ended(self, seconds: float = 600.0) -> Ended:
        """How it ended; one that hangs is killed."""
        if not self.wait(seconds):
            self.send(signal.SIGKILL)
            self.wait()
        assert self._code is not None
        out, err = (self.said.with_suffix(f".{end}").read_text(errors="replace") for end in ("out", "err"))
        return Ended(self._code, out, err)


def start(
    words: Sequence[str | Path],
    said: Path,
    prepare: Callable[[], None] = lambda: None,
    at_end: Callable[[], None] = lambda: None,
) -> Running:
    """Start a command as a fork; `prepare` is called in it before the command, and `at_end` after it."""
    sys.stdout.flush()
    sys.stderr.flush()
    for end in ("out", "err"):
        said.with_suffix(f".{end}").write_bytes(b"")
    pid = os.fork()
    if pid == 0:
        _command([str(word) for word in words], said, prepare, at_end)
    return Running(pid, said)


def import_all(words: Sequence[str | Path], said: Path) -> Ended:
    """Import what a command imports on its way: forks are quicker for it, and need not be allowed to read it."""
    names = said.with_suffix(".modules")
    ended = start(words, said, at_end=partial(_note_modules, names)).ended()
    for name in names.read_text().split():
        with suppress(Exception):
            importlib.import_module(name)
    return ended


def _note_modules(path: Path) -> None:
    atomic_write(path, "\n".join(sys.modules))


def start_truly(words: Sequence[str | Path], said: Path, **environment: str) -> Running:
    """Start a command as a shell would."""
    with said.with_suffix(".out").open("wb") as out, said.with_suffix(".err").open("wb") as err:
        process = subprocess.Popen(
            [*TRUE, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **environment},
            preexec_fn=_as_from_a_shell,
        )
    process.returncode = 0  # it is waited for by its number
    return Running(process.pid, said)


def _as_from_a_shell() -> None:
    """A job in the background has been told not to hear Ctrl-C; Python then installs no handler."""
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _die_with_parent() -> None:
    """Where the system can do that: who is stopped would stay for ever."""
    set_death_signal = 1
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def _command(words: list[str], said: Path, prepare: Callable[[], None], at_end: Callable[[], None]) -> None:
    """The whole life of a fork."""
    begun, code = False, 1
    try:
        _die_with_parent()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, end in ((1, "out"), (2, "err")):
            os.dup2(os.open(said.with_suffix(f".{end}"), os.O_WRONLY), number)
        sys.argv = ["memgrow", *words]
        prepare()
        begun = True
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        code = NOT_BEGUN if not begun else 1
        if begun:
            traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    finally:
        at_end()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
