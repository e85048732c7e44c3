"""Jobs done on this machine: in this process, or in a pool of processes, each of which is replaced when it dies."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection, wait

import torch

from memgrow.device import find_device
from memgrow.experiments.executor import ON_A_GPU, REPORT_EVERY_S, Executor, Report, Reporter, set_threads
from memgrow.experiments.job import WorkerContext, run_job
from memgrow.experiments.plan import Job, Result
from memgrow.models.pretrained.tokenizer import tokens_kept
from memgrow.piped_process import READY, PipedProcess, begin

LITTLE = 5000  # examples to learn from in all: with less, it takes longer to start processes than to do without


class ThisMachine:
    """The backend of a single machine: as many processes as there are cores, or as can share its GPU."""

    about = ""

    def __enter__(self) -> "ThisMachine":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def device(self, asked: str) -> str:
        return find_device(asked).type

    def executor(
        self, context: WorkerContext, report: Report, jobs: int, work: float, workers: int | None = None
    ) -> Executor:
        suitable = ON_A_GPU if context.device == "cuda" else _cores()
        if work < LITTLE:
            suitable = 1
        count = min(suitable if workers is None else workers, jobs)
        return WorkerPool(context, report, count) if count > 1 else ThisProcess(context, report)


class ThisProcess:
    """Does one job after another in this process."""

    def __init__(self, context: WorkerContext, report: Report) -> None:
        self.context, self.report = context, report
        self._job: Job | None = None
        self._threads = torch.get_num_threads()
        self._within = ExitStack()

    def __enter__(self) -> "ThisProcess":
        set_threads(self.context.device)
        self._within.enter_context(tokens_kept())
        return self

    def __exit__(self, *_: object) -> None:
        self._within.close()
        torch.set_num_threads(self._threads)

    @property
    def free(self) -> bool:
        return self._job is None

    def submit(self, job: Job) -> None:
        self._job = job

    def results(self) -> list[Result]:
        job, self._job = self._job, None
        return [] if job is None else [run_job(job, self.context, Reporter(lambda said: self.report(job, said)))]


class WorkerPool:
    """Several processes. One that dies takes its job with it, and another takes its place."""

    def __init__(self, context: WorkerContext, report: Report, count: int) -> None:
        self.context, self.report = context, report
        # At once: starting a process ends when it has read its context, for which it first imports torch.
        with ThreadPoolExecutor(count) as starting:
            self._workers = list(starting.map(lambda _: Worker(context), range(count)))

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join()

    @property
    def free(self) -> bool:
        return any(worker.job is None for worker in self._workers)

    def submit(self, job: Job) -> None:
        next(worker for worker in self._workers if worker.job is None).start(job)

    def results(self) -> list[Result]:
        results: list[Result] = []
        while not results and any(worker.job is not None for worker in self._workers):
            readable = wait([worker.pipe for worker in self._workers])
            for number, worker in enumerate(self._workers):
                if worker.pipe in readable:
                    results += self._receive(number, worker)
        return results

    def _receive(self, number: int, worker: "Worker") -> list[Result]:
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            self._workers[number] = Worker(self.context)
            return worker.lost()
        if isinstance(said, Result):
            worker.job = None
            return [said]
        if said == READY:
            worker.ready = True
        elif worker.job is not None:
            self.report(worker.job, said)
        return []


class Worker(PipedProcess):
    """A process that does one job at a time."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__(_work, context)
        self.job: Job | None = None

    def start(self, job: Job) -> None:
        self.job = job
        with suppress(OSError):  # it has just died: `results` will find out
            self.pipe.send(job)

    def lost(self) -> list[Result]:
        """The result of a job whose process has died."""
        how = self.how_it_died("a worker", "one worker")
        if self.job is None:
            return []
        return [Result(self.job, reason=f"its process died ({how}), perhaps for want of memory: try fewer workers")]

    def stop(self) -> None:
        """Ask an idle process to end, and terminate one that is at work."""
        if self.job is None and self.ready:
            with suppress(OSError):
                self.pipe.send(None)
        else:
            self.process.terminate()


def _work(pipe: Connection, context: WorkerContext) -> None:
    """The main function of a worker: job after job until there is none, or nobody is left to ask."""
    set_threads(context.device)
    with tokens_kept(), suppress(EOFError, BrokenPipeError, ConnectionResetError):
        begin(pipe)
        while (job := pipe.recv()) is not None:
            pipe.send(run_job(job, context, Reporter(pipe.send, REPORT_EVERY_S)))


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
