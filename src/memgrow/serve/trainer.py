"""The training process: `python -m memgrow.serve.trainer FOLDER`, started by the service.

It reads its order from standard input and leaves its progress, the trained model and the result in the job's folder.
Killed and started again it resumes. When the service ends, its end of the pipe closes and the process exits.
"""

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from memgrow.data import Domain, load_for_evaluation, load_stream
from memgrow.data.disk import atomic_write, finite, pack_json
from memgrow.data.rows import Columns
from memgrow.errors import DataError, MemgrowError
from memgrow.learner import Learner
from memgrow.nn.device import allow_tf32, set_usual_threads
from memgrow.serve.logs import error_message, log, write_to_stderr
from memgrow.training.progress import Step, UnfinishedError

DATA, PROGRESS, RESULT, CANDIDATE = "data", "progress.json", "result.json", "model"
PROGRESS_SECONDS = 0.5  # between two updates of the progress
NICE = 5  # predictions come first


@dataclass(frozen=True)
class Order:
    """What to train."""

    model: str  # the folder to continue from
    domain: str
    suffix: str  # of the data file
    device: str = "auto"
    watch: Sequence[str] = ()  # files with test examples of earlier domains
    max_forgetting: float | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # of the file, by role


class FileProgress:
    """Writes the latest step to a file from time to time."""

    def __init__(self, file: Path) -> None:
        self._file, self._next = file, 0.0

    def step(self, step: Step) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PROGRESS_SECONDS
        done = (step.epoch - 1 + step.batch / max(step.batches, 1)) / max(step.epochs, 1)
        with suppress(OSError):
            atomic_write(self._file, pack_json({"epoch": step.epoch, "epochs": step.epochs, "progress": done}))

    def note(self, sentence: str) -> None:
        return


def load_upload(file: Path, domain: str, columns: Mapping[str, str]) -> Domain:
    """The domain in an uploaded file. Messages name the domain, and not where the file is stored."""
    try:
        text, pair, label, reply = (columns.get(role) for role in ("text", "pair", "label", "reply"))
        (found,) = load_stream([file], columns=Columns(text, pair, label, reply=reply)).stream
    except MemgrowError as error:
        raise DataError(str(error).replace(str(file), domain).replace(file.name, domain)) from None
    return replace(found, name=domain)


def train(folder: Path, order: Order) -> dict[str, Any]:
    """Learn the domain in a job's folder; the test accuracies before and after come back."""
    learner = Learner.load(order.model, order.device)
    allow_tf32(learner.device)
    domain = load_upload(folder / f"{DATA}{order.suffix}", order.domain, order.columns)
    again = load_for_evaluation(order.watch, model=Path(order.model)).stream if order.watch else ()
    watched = [one for one in again if one.name != domain.name]
    before = {name: score for row in learner.history.matrix.rows for name, score in row.scores.items()}
    for one in (domain, *watched):
        if one.test:  # a label that the model does not have yet counts as wrong
            before[one.name] = learner.trained().score(learner.split(one, "test", unknown_labels=True))
    adapt = partial(
        learner.adapt,
        domain,
        watch=watched,
        folder=folder / CANDIDATE,
        overwrite=True,  # what an earlier attempt left
        save_every=10.0,
        progress=FileProgress(folder / PROGRESS),
        keep_versions=0,
        max_forgetting=order.max_forgetting,
    )
    try:
        adapt()
    except UnfinishedError:  # an attempt that began from another version of the model
        for left in folder.glob(f"{CANDIDATE}*"):
            shutil.rmtree(left)
        adapt()
    return {"before": before, "after": dict(learner.history.matrix.rows[-1].scores)}


def run(folder: Path, order: Order) -> None:
    """Train, and write the result or an error message into the job's folder."""
    try:
        result = train(folder, order)
    except Exception as error:
        result = {"error": error_message(error)}
        if not isinstance(error, MemgrowError):
            log("training failed", error)
    atomic_write(folder / RESULT, pack_json(finite(result)))


def _exit_with_parent() -> None:
    os.read(0, 1)  # returns at the end of the pipe; `sys.stdin` would keep a lock, and Python abort at its end
    os._exit(1)


if __name__ == "__main__":
    write_to_stderr()
    received = Order(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(OSError):
        os.nice(NICE)
    set_usual_threads(max(1, torch.get_num_threads() // 2))
    run(Path(sys.argv[1]), received)
