"""Errors, full disks, Ctrl-C and SIGTERM at the command line: each becomes one sentence and an exit code."""

import os
import signal
import sys
from contextlib import suppress
from typing import Any

from rich.text import Text

from memgrow.cli.output import stderr
from memgrow.errors import MemgrowError

EXIT_CODES = (
    "Exit codes: 0 done; 1 a fault of memgrow's own, or a damaged model (verify); 2 a mistake, which a sentence tells; "
    "3 a domain was not kept (--max-forgetting), or nothing was pruned (--max-loss); 130 Ctrl-C; 141 nobody reads the "
    "output; 143 SIGTERM."
)

# Exit codes; 1, with a traceback, is a fault of memgrow's own.
USER_ERROR, FORGOT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 2, 3, 130, 141, 143
RESUMABLE = ("adapt", "compare", "paper", "data")
TOLD = "the user was told"


class Terminated(KeyboardInterrupt):
    """SIGTERM, by which a system that shuts down or a scheduler stops a process: a command ends as by Ctrl-C."""


def _terminate(number: int, frame: Any) -> None:
    raise Terminated


def hear_sigterm() -> None:
    """Let SIGTERM end a command with a sentence, unless whoever started it wants something else."""
    with suppress(ValueError):  # not the main thread
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminate)


def stop_hearing() -> None:
    """The command is about to end: a signal would only make a traceback of its sentence."""
    if signal.getsignal(signal.SIGTERM) is _terminate:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def say_stopped(stopped: KeyboardInterrupt, command: str | None) -> int:
    """Say that a command was stopped, if that has not been said; its exit code."""
    stop_hearing()
    if TOLD not in getattr(stopped, "__notes__", ()):
        stopped.add_note(TOLD)
        resumes = "; the same command again goes on from there" if command in RESUMABLE else ""
        complain(f"stopped; what was saved before is unchanged{resumes}")
    return TERMINATED if isinstance(stopped, Terminated) else INTERRUPTED


def complain(sentence: str) -> None:
    stderr.print(Text.assemble(("memgrow:", "red"), " ", sentence), soft_wrap=True)


def end_output() -> int | None:
    """Write out what is left to be written; the exit code if that fails."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        give_up_output()
        return BROKEN_PIPE
    except OSError as error:
        complain(sentence_for(error) or str(error))
        give_up_output()
        return USER_ERROR
    return None


def give_up_output() -> None:
    """Drop output that finds no room: the rest would fail once more at the very end and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def sentence_for(error: Exception) -> str | None:
    """A sentence for what a user can put right; None for a fault of our own, which needs its traceback."""
    if isinstance(error, MemgrowError):
        return str(error)
    if isinstance(error, OSError):
        what = f"{error.filename}: " if error.filename else ""
        return f"{what}{error.strerror or error}; check that it can be read and written"
    if _is_out_of_memory(error):
        return "there is not enough memory: choose a smaller batch, hidden, slots or max_words with --set"
    return None


def _is_out_of_memory(error: Exception) -> bool:
    if "torch" not in sys.modules:  # nothing was computed, and it takes seconds to import
        return isinstance(error, MemoryError)
    from memgrow.device import is_out_of_memory

    return is_out_of_memory(error)
