"""A process that is killed before one of its file operations, or whose operation fails: Python's audit events tell."""

import errno
import itertools
import os
import signal
import sys
from collections.abc import Callable, Collection
from typing import Any

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.chmod", "os.truncate"}
MAKING = {"open", "os.mkdir", "os.link"}  # what needs room
WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC


def at_operations(
    action: Callable[[int], None], below: str | os.PathLike[str], events: Collection[str] = EVENTS, writes: bool = False
) -> None:
    """Do something before each file operation that concerns what lies below a folder; it is given its number.

    With `writes`, what is only opened to be read does not count. What the action raises, the operation raises. Audit
    hooks cannot be removed: only for a process that ends soon.
    """
    calls, place = itertools.count(), os.path.realpath(below)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in events and _concerns(event, arguments, place, writes):
            action(next(calls))

    sys.addaudithook(watch)


def kill_before(number: int, below: str | os.PathLike[str], by: signal.Signals = signal.SIGKILL) -> None:
    """Let this process be killed, or stopped, before the operation of that number."""

    def kill(reached: int) -> None:
        if reached == number:
            os.kill(os.getpid(), by)

    at_operations(kill, below)


def fill_before(number: int, below: str | os.PathLike[str], error: int = errno.ENOSPC) -> None:
    """From the operation of that number on, nothing new finds room; what is there can be renamed and removed."""

    def refuse(reached: int) -> None:
        if reached >= number:
            raise OSError(error, os.strerror(error))

    at_operations(refuse, below, MAKING, writes=True)


def _concerns(event: str, arguments: tuple[Any, ...], place: str, writes: bool) -> bool:
    paths = [os.fsdecode(one) for one in arguments if isinstance(one, str | bytes | os.PathLike)]
    if event == "open":
        if writes and not (isinstance(arguments[2], int) and arguments[2] & WRITING):
            return False
        paths = paths[:1]  # the second is the mode
    # What is named relative to an open folder, as rmtree does, is taken to be ours.
    return not paths or any(not path.startswith("/") or path.startswith(place) for path in paths)
