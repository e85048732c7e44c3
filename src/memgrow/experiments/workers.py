"""Who does the jobs: this process, or several that are started for it and replaced when they die."""

import multiprocessing
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from memgrow.device import allow_tf32
from memgrow.errors import SettingsError
from memgrow.experiments.job import Result, WorkerContext, run_job
from memgrow.experiments.plan import Job
from memgrow.progress import Step

Tell = Callable[[Job, Step | str], None]
"""Takes what a job says while it is done: how far training is, or a sentence."""

READY = "ready"
GLANCE = 1.0  # seconds between two reports of a worker
PATIENCE = 5.0  # seconds that a worker has to end by itself


class Here:
    """One job after another in this process."""

    def __init__(self, bench: WorkerContext, tell: Tell) -> None:
        self.bench, self.tell = bench, tell
        self._job: Job | None = None
        self._threads = torch.get_num_threads()

    def __enter__(self) -> "Here":
        _take_threads(self.bench)
        return self

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._threads)

    @property
    def free(self) -> bool:
        return self._job is None

    def start(self, job: Job) -> None:
        self._job = job

    def wait(self) -> list[Result]:
        job, self._job = self._job, None
        return [] if job is None else [run_job(job, self.bench, Voice(lambda said: self.tell(job, said)))]


class Workers:
    """Several processes. One that dies takes its job with it, and another takes its place."""

    def __init__(self, bench: WorkerContext, tell: Tell, count: int) -> None:
        self.bench, self.tell = bench, tell
        self._workers = [_Worker(bench) for _ in range(count)]

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.dismiss()
        for worker in self._workers:
            worker.end()

    @property
    def free(self) -> bool:
        return any(worker.job is None for worker in self._workers)

    def start(self, job: Job) -> None:
        next(worker for worker in self._workers if worker.job is None).take(job)

    def wait(self) -> list[Result]:
        """At least one result of what is under way; none if nothing is."""
        results: list[Result] = []
        while not results and any(worker.job is not None for worker in self._workers):
            heard = wait([worker.line for worker in self._workers])
            for number, worker in enumerate(self._workers):
                if worker.line in heard:
                    results += self._hear(number, worker)
        return results

    def _hear(self, number: int, worker: "_Worker") -> list[Result]:
        try:
            said = worker.line.recv()
        except (EOFError, OSError):
            self._workers[number] = _Worker(self.bench)
            return worker.lost()
        if isinstance(said, Result):
            worker.job = None
            return [said]
        if said == READY:
            worker.ready = True
        elif worker.job is not None:
            self.tell(worker.job, said)
        return []


class _Worker:
    """A process at the other end of a line."""

    def __init__(self, bench: WorkerContext) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(theirs, bench), daemon=True)
        self.process.start()
        theirs.close()  # so that the line breaks when the process ends
        self.job: Job | None = None
        self.ready = False

    def take(self, job: Job) -> None:
        self.job = job
        with suppress(OSError):  # it has just died: `wait` will find out
            self.line.send(job)

    def lost(self) -> list[Result]:
        """What is left of a process that has died."""
        self.end()
        code = self.process.exitcode or 0
        if not self.ready:
            raise SettingsError(
                f"a worker could not be started (exit code {code}): in a script, put what is run below "
                "`if __name__ == '__main__':`, or use one worker"
            )
        if self.job is None:
            return []
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return [Result(self.job, reason=f"its process died ({how}), perhaps for want of memory: try fewer workers")]

    def dismiss(self) -> None:
        """Ask an idle process to end, and stop one that is at work."""
        if self.job is None and self.ready:
            with suppress(OSError):
                self.line.send(None)
        else:
            self.process.terminate()

    def end(self) -> None:
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.line.close()


@dataclass
class Voice:
    """Passes on what a training tells: every sentence, and now and then a step."""

    say: Callable[[Step | str], None]
    every: float = 0.0
    spoke: float = 0.0

    def step(self, step: Step) -> None:
        if time.monotonic() - self.spoke >= self.every:
            self.spoke = time.monotonic()
            self.say(step)

    def note(self, sentence: str) -> None:
        self.say(sentence)


def _work(line: Connection, bench: WorkerContext) -> None:
    """The life of a worker: job after job until there is none, or nobody is left to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one sees to the others
    _take_threads(bench)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        line.send(READY)
        while (job := line.recv()) is not None:
            line.send(run_job(job, bench, Voice(line.send, GLANCE)))


def _take_threads(bench: WorkerContext) -> None:
    """On a CPU one thread to a job: what a seed gives must not depend on how many work side by side."""
    if bench.device == "cpu":
        torch.set_num_threads(1)
    allow_tf32(torch.device(bench.device))
