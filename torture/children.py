"""Children of a process that has imported everything: a command starts in milliseconds rather than in seconds."""

import multiprocessing
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from queue import Empty
from typing import TypeVar

T = TypeVar("T")
FORK = multiprocessing.get_context("fork")


def in_child(work: Callable[[], None], quiet: bool = False) -> int:
    """Do something in a child process; its exit code, or minus the signal that ended it."""
    process = FORK.Process(target=_quietly, args=(work, quiet))
    process.start()
    process.join()
    return process.exitcode or 0


def _quietly(work: Callable[[], None], quiet: bool = False) -> None:
    """Without what the parent does at its end."""
    try:
        work()
    except BaseException:
        if not quiet:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def spread(work: Callable[[int], T], count: int, workers: int) -> Iterator[T]:
    """The results of that many pieces of work, in the order in which processes get them done."""
    taken, results = FORK.Value("i", 0), FORK.Queue()

    def labour() -> None:
        while True:
            with taken.get_lock():
                number = taken.value
                taken.value += 1
            if number >= count:
                break
            results.put(pickle.dumps(work(number)))  # here, where an error ends the process
        results.close()
        results.join_thread()

    processes = [FORK.Process(target=_quietly, args=(labour,)) for _ in range(min(workers, count))]
    for process in processes:
        process.start()
    got = 0
    while got < count:
        try:
            found: T = pickle.loads(results.get(timeout=1.0))
        except Empty:
            if not any(process.is_alive() for process in processes):
                raise RuntimeError("the processes that work died") from None
            continue
        got += 1
        yield found
    for process in processes:
        process.join()
