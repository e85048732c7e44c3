"""Errors, full disks, Ctrl-C and SIGTERM at the command line: each becomes one sentence and an exit code."""

import os
import signal
import sys
from contextlib import suppress
from typing import Any

from rich.text import Text
from typer.core import TyperGroup

from memgrow.cli.output import stderr
from memgrow.errors import ForgettingError, MemgrowError

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


class Commands(TyperGroup):
    """Turns errors into sentences, whichever command they happen in."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has gone, as `head` does: nothing to say, and nobody to hear
            give_up_output()
            ctx.exit(BROKEN_PIPE)
        except KeyboardInterrupt as stopped:
            ctx.exit(say_stopped(stopped, ctx.invoked_subcommand))
        except (ImportError, SystemError) as error:  # what an interrupted import may make of Ctrl-C
            if (pressed := interruption(error)) is None:
                raise
            ctx.exit(say_stopped(pressed, ctx.invoked_subcommand))
        except (MemgrowError, OSError, MemoryError, RuntimeError) as error:
            sentence = _sentence(error)
            if sentence is None:
                raise
            _complain(sentence)
            give_up_output()
            ctx.exit(FORGOT if isinstance(error, ForgettingError) else USER_ERROR)


def say_stopped(stopped: KeyboardInterrupt, command: str | None) -> int:
    """Say that a command was stopped, if that has not been said; its exit code."""
    stop_hearing()
    if TOLD not in getattr(stopped, "__notes__", ()):
        stopped.add_note(TOLD)
        resumes = "; the same command again goes on from there" if command in RESUMABLE else ""
        _complain(f"stopped; what was saved before is unchanged{resumes}")
    return TERMINATED if isinstance(stopped, Terminated) else INTERRUPTED


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """The signal that an error came of, if it did."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _complain(sentence: str) -> None:
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
        _complain(_sentence(error) or str(error))
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


def _sentence(error: Exception) -> str | None:
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
