"""The process that learns an uploaded domain: `python -m memgrow.service.trainer FOLDER`, started by the service.

It reads what it is to do from the job's folder and leaves there its progress, the trained model and the result. It
changes nothing else; publishing is the service's. Killed and started again it goes on where it was. It ends with the
service that started it, whose end of a pipe closes then.
"""

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from memgrow.data import Domain, load_for_evaluation
from memgrow.device import allow_tf32, set_usual_threads
from memgrow.errors import MemgrowError
from memgrow.history import History
from memgrow.learner import Learner
from memgrow.progress import Step
from memgrow.service.jobs import PROGRESS, RESULT, JobFolder, read_object, sentence_for
from memgrow.service.uploads import load_upload
from memgrow.storage import atomic_write, finite, pack_json
from memgrow.training.checks import check_stage, domains_of_stage
from memgrow.training.resume import ResumeFolder, UnfinishedError

ORDER = "order.json"
EVERY_S = 0.5  # between two words on the progress
NICE = 5  # answers come first


@dataclass(frozen=True)
class Order:
    """What a trainer is to do."""

    model: str  # the folder to go on from
    domain: str
    suffix: str
    device: str = "auto"
    watch: Sequence[str] = ()  # files of test examples of earlier domains
    max_forgetting: float | None = None

    def write(self, folder: Path) -> None:
        atomic_write(folder / ORDER, pack_json(asdict(self)))


class FileProgress:
    """Writes the latest step into a file from time to time."""

    def __init__(self, file: Path) -> None:
        self._file, self._next = file, 0.0

    def step(self, step: Step) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_S
        done = (step.epoch - 1 + step.batch / max(step.batches, 1)) / max(step.epochs, 1)
        told = {"epoch": step.epoch, "epochs": step.epochs, "progress": min(max(done, 0.0), 1.0)}
        with suppress(OSError):  # a full disk: it may have room again by the time that the model is saved
            atomic_write(self._file, pack_json(told))

    def note(self, sentence: str) -> None:
        return


def train(folder: Path, order: Order) -> dict[str, Any]:
    """Learn the domain in the job's folder, and say how well each domain was known before and is known after."""
    place = JobFolder(folder)
    learner = Learner.load(order.model, order.device)
    allow_tf32(learner.device)
    domain = load_upload(place.data(order.suffix), order.domain)
    domains = domains_of_stage(learner.method, learner.history.domains, domain, ())
    stage = check_stage(domains, learner.task, learner.labels)
    watched = [one for one in load_for_evaluation(order.watch).stream if one.name != domain.name] if order.watch else []
    before = {**_last_known(learner.history), **_scores(learner, [domain, *watched])}
    wanted = [*(past.fingerprint for past in learner.history.stages), stage.fingerprint]
    if _learnt(place.candidate) == wanted:  # it was killed just after it had ended
        history = Learner.load(place.candidate, "cpu").history
    else:
        adapt = partial(
            learner.adapt,
            domain,
            watch=watched,
            folder=place.candidate,
            overwrite=True,  # one that began from another version of the model
            save_every=10.0,
            progress=FileProgress(folder / PROGRESS),
            keep_versions=0,
            max_forgetting=order.max_forgetting,
        )
        try:
            adapt()
        except UnfinishedError:  # this job's own, and begun before `undo` or the like changed the model
            ResumeFolder.beside(place.candidate, 0, {}, 0.0).clear()
            adapt()
        history = learner.history
    return {"before": before, "after": dict(history.matrix.rows[-1].scores)}


def _learnt(candidate: Path) -> list[str] | None:
    with suppress(MemgrowError):
        return [stage.fingerprint for stage in Learner.load(candidate, "cpu").history.stages]
    return None


def _last_known(history: History) -> dict[str, float]:
    return {name: score for row in history.matrix.rows for name, score in row.scores.items()}


def _scores(learner: Learner, domains: Sequence[Domain]) -> dict[str, float]:
    """Accuracy on the test examples of each; a label that the model does not have yet counts as wrong."""
    model, tested = learner.trained(), [domain for domain in domains if domain.test]
    return {domain.name: model.score(learner.encode(domain.test, strange=True)) for domain in tested}


def _end_with_parent() -> None:
    """Wait until the service has gone; nothing is ever written to the pipe."""
    os.read(0, 1)
    os._exit(1)


def learn_order(folder: Path) -> None:
    """Do what the order in a job's folder says, and leave the result there, or a sentence on why there is none."""
    try:
        result = train(folder, Order(**read_object(folder / ORDER)))
    except Exception as error:
        result = {"error": sentence_for(error)}
    atomic_write(folder / RESULT, pack_json(finite(result)))


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(OSError):
        os.nice(NICE)
    set_usual_threads(max(1, torch.get_num_threads() // 2))
    learn_order(Path(sys.argv[1]))
