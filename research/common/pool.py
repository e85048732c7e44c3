"""Runs of a study in several processes, one result file each."""

import multiprocessing
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

Job = tuple[Any, ...]


def run_jobs(do: Callable[..., None], jobs: Iterable[Job], workers: int, seconds: float, *shared: Any) -> None:
    """Call `do(job, *shared)` for each job, in the order given; begin none after so many seconds."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    for job in jobs:
        queue.put(job)
    for _ in range(workers):
        queue.put(None)
    until = time.time() + seconds
    started = [context.Process(target=_work, args=(do, queue, until, shared)) for _ in range(workers)]
    for one in started:
        one.start()
    for one in started:
        one.join()


def _work(do: Callable[..., None], queue: Any, until: float, shared: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    while (job := queue.get()) is not None:
        if time.time() < until:
            try:
                do(job, *shared)
            except Exception as error:  # one run must not end the others
                print("FAILED", job, repr(error)[:300], flush=True)


def file_of(out: Path, job: Job, suffix: str) -> Path:
    """The file of a job's result."""
    out.mkdir(parents=True, exist_ok=True)
    return out / (".".join(map(str, job)) + suffix)
