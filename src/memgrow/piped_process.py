"""A child process at the other end of a pipe: started afresh, heard of when it is ready, and never left behind."""

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from memgrow.errors import SettingsError

READY = "ready"  # the first thing that a child says
TIMEOUT_S = 5.0  # for a child to end by itself


class PipedProcess:
    """Calls `target` in a new process, with its end of the pipe and what else is given.

    The pipe breaks when the child ends, and the child's end of it when this process does.
    """

    def __init__(self, target: Callable[..., None], *given: Any) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process: BaseProcess = spawn.Process(target=target, args=(theirs, *given), daemon=True)
        self.process.start()
        theirs.close()
        self.ready = False  # whether the child has said so

    def how_it_died(self, what: str, instead: str) -> str:
        """The exit code or signal of a child that has ended; an error if it was never ready, which names both."""
        self.join()
        code = self.process.exitcode or 0
        if not self.ready:
            raise SettingsError(
                f"{what} could not be started (exit code {code}): in a script, put what is run below "
                f"`if __name__ == '__main__':`, or use {instead}"
            )
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def join(self) -> None:
        """Wait until it has ended, and kill it if it does not."""
        self.process.join(TIMEOUT_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def begin(pipe: Connection) -> None:
    """A child is ready. Ctrl-C reaches every process: it is left to the first one, which sees to the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe.send(READY)
