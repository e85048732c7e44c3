"""Child processes, started here alone: none imports modules of a working directory, and none outlives this one."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from memgrow.errors import printable

MAX_LINE, KEPT_LINES = 2000, 20  # of what a child writes to standard error


def start_module(module: str, *words: str, search: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[bytes]:
    """Start `python -m MODULE`. `search` comes before PYTHONPATH, whose relative paths hold also with `cwd`."""
    paths = [*search, *(str(Path(one).absolute()) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one)]
    environment = {**os.environ, **options.pop("env", {}), "PYTHONPATH": os.pathsep.join(paths)}
    environment["PYTHONSAFEPATH"] = "1"  # as -P, and for its own children too
    return subprocess.Popen([sys.executable, "-m", module, *words], env=environment, **options)


def relay_errors(stream: IO[bytes]) -> list[str]:
    """Pass on what a child writes to standard error, without control characters; the last lines come back."""
    kept: deque[str] = deque(maxlen=KEPT_LINES)
    begins = True
    for piece in iter(partial(stream.readline, MAX_LINE), b""):
        if begins:  # the rest of a longer line is dropped
            kept.append(printable(piece.decode(errors="replace").rstrip()))
            with suppress(OSError, ValueError, AttributeError):  # there is no standard error
                sys.stderr.write(f"{kept[-1]}\n")
        begins = piece.endswith(b"\n")
    return [*kept]


@contextmanager
def process_pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """New processes that run functions."""
    spawn, before = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    safe_path = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    executor = ProcessPoolExecutor(count, mp_context=spawn, initializer=_start_worker)
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
            child.join()
        os.environ.pop("PYTHONSAFEPATH")
        if safe_path is not None:
            os.environ["PYTHONSAFEPATH"] = safe_path


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
