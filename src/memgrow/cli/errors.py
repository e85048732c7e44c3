"""What becomes of a mistake, of a full disk and of Ctrl-C at the command line: one sentence and an exit code."""

import os
import sys
from contextlib import suppress
from typing import Any

import torch
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from memgrow.errors import MemgrowError

MISTAKE, STOPPED = 2, 130
GOES_ON = ("adapt", "compare", "paper", "data")
NO_MEMORY = ("DefaultCPUAllocator", "Storage size calculation overflowed")  # so torch says that a tensor is too large

whispers = Console(stderr=True, highlight=False)


def whisper(sentence: str) -> None:
    """Say something beside the output, so that a pipe does not get it."""
    whispers.print(Text(sentence, "dim"))


class Commands(TyperGroup):
    """Turns mistakes into sentences, whichever command they are made in."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has gone, as `head` does: nothing to say, and nobody to hear
            raise
        except KeyboardInterrupt:
            goes_on = "; the same command again goes on from there" if ctx.invoked_subcommand in GOES_ON else ""
            _complain(f"stopped; what was saved before is unchanged{goes_on}")
            ctx.exit(STOPPED)
        except (MemgrowError, OSError, MemoryError, RuntimeError) as error:
            sentence = _sentence(error)
            if sentence is None:
                raise
            _complain(sentence)
            _give_up_output()
            ctx.exit(MISTAKE)


def _complain(sentence: str) -> None:
    whispers.print(Text.assemble(("memgrow:", "red"), " ", sentence), soft_wrap=True)


def _give_up_output() -> None:
    """Where output finds no room, what is left of it would fail once more at the very end and change the exit code."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sentence(error: Exception) -> str | None:
    """What a user can do something about; None for what is our own mistake and needs its traceback."""
    if isinstance(error, MemgrowError):
        return str(error)
    if isinstance(error, OSError):
        what = f"{error.filename}: " if error.filename else ""
        return f"{what}{error.strerror or error}; check that it can be read and written"
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in str(error) for words in NO_MEMORY):
        return "there is not enough memory: choose a smaller batch, hidden, slots or max_words with --set"
    return None
