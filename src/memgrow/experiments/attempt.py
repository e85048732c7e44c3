"""A job attempted: what came of it, or why nothing did, in a sentence."""

import gc
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import torch

from memgrow.errors import MemgrowError
from memgrow.experiments.job import Bench
from memgrow.experiments.plan import Job
from memgrow.experiments.run import Record
from memgrow.progress import Progress

NO_MEMORY = ("DefaultCPUAllocator", "Storage size calculation overflowed", "out of memory")  # in torch's words


@dataclass(frozen=True)
class Result:
    """How a job ended."""

    job: Job
    records: tuple[Record, ...] = field(default=())
    reason: str | None = None  # why it failed


def attempt(job: Job, bench: Bench, progress: Progress) -> Result:
    """Do a job; whatever goes wrong with it ends this job alone."""
    try:
        return Result(job, tuple(bench.do(job, progress)))
    except Exception as error:
        failed = Result(job, reason=why(error))
    # Behind the handler: the traceback would hold on to the tensors that are to be given back.
    gc.collect()
    torch.cuda.empty_cache()
    return failed


def why(error: Exception) -> str:
    """One sentence; for what is no user's mistake, with the place where it happened."""
    if isinstance(error, MemgrowError):
        return str(error)
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in str(error) for words in NO_MEMORY):
        return "there was not enough memory: choose fewer workers, or a smaller batch, hidden, slots or max_words"
    if isinstance(error, OSError):
        return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
