"""Trainings one after the other, each in a process of its own, and what becomes of the models that come of them.

A record on the disk is changed before what it tells of is done, and what is done may be done again. So whatever is
killed, the service that starts next finds out where each job stands and goes on from there. Whatever a training ends
by, a full disk too, the thread goes on with the next.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, get_args

from memgrow.errors import MemgrowError
from memgrow.service.jobs import UNDER_WAY, Job, JobFolder, State, ended, sentence_for, told
from memgrow.service.jobs_folder import JobRecords
from memgrow.service.limits import Limits, RefusedError
from memgrow.service.logs import Log
from memgrow.service.published import Publisher
from memgrow.service.trainer import Order
from memgrow.service.uploads import check_upload, domain_name, store, suffix_of

PAUSE_S = 0.05  # between two looks at a training
AGAIN_S = 5.0  # between two tries to write what a full disk had no room for
STOPPED = "the training was stopped"
KILLED = "the training process was ended from outside twice (signal {}): is there enough memory for it?"
NO_RESULT = "the training process left no result: is the disk full?"


class TrainingQueue:
    """The jobs of a service, and the thread that works them off."""

    def __init__(
        self,
        folder: Path,
        publisher: Publisher,
        limits: Limits,
        log: Log,
        watch: Sequence[Path] = (),
        max_forgetting: float | None = None,
    ) -> None:
        self.folder, self._records = folder, JobRecords(folder, log)
        self._publisher, self._limits, self._log = publisher, limits, log
        self._watch, self._max_forgetting = [str(path.absolute()) for path in watch], max_forgetting
        self._changed = threading.Condition(threading.RLock())
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="trainings", daemon=True)

    def start(self) -> None:
        """Take up what was left, and begin."""
        self._records.take_up()
        self._thread.start()

    def stop(self) -> None:
        """End the training that is under way; the next service goes on with it."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()
        self._records.write_again()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    # For those who ask

    def add(self, content: BinaryIO, file_name: str | None, name: str | None, publish: bool) -> Job:
        """Check a file and put it into the queue."""
        self.check_room()
        job = Job.new(domain_name(name, file_name), suffix_of(file_name), publish)
        place = self._place(job)
        place.create()
        try:
            store(content, place.data(job.suffix), self._limits.upload)
            check_upload(place.data(job.suffix), job.domain, self._publisher.current.learner)
            with self._changed:
                self.check_room()
                self._records.write(job)
                self._changed.notify()
        except BaseException:
            place.remove()
            raise
        return job

    def check_room(self) -> None:
        """Refuse one more job than there may be."""
        if sum(job.state in UNDER_WAY for job in self._jobs.values()) >= self._limits.jobs:
            sentence = f"{self._limits.jobs} trainings wait or are to be published or discarded: see to them first"
            raise RefusedError(429, sentence)

    def list(self) -> list[dict[str, Any]]:
        """All jobs, the latest first."""
        return [self.tell(job.id) for job in sorted(self._jobs.values(), key=lambda one: -one.created)]

    def tell(self, number: str) -> dict[str, Any]:
        job = self._find(number)
        return told(job, self._place(job).progress() if job.state == "training" else {})

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        states = [job.state for job in self._jobs.values()]
        return {state: states.count(state) for state in get_args(State)}

    def publish(self, number: str) -> dict[str, Any]:
        """Publish a trained model now."""
        with self._changed:
            job = self._find(number)
            if job.state != "ready":
                raise RefusedError(409, f"this training is {job.state}, and only one that is ready can be published")
            self._records.write(replace(job, publish=True))
            if (error := self._publish(self._jobs[number])) is not None:
                raise error
        return self.tell(number)

    def discard(self, number: str) -> dict[str, Any]:
        """Give a training up, or the model that has come of it."""
        with self._changed:
            job = self._find(number)
            if job.state not in UNDER_WAY:
                raise RefusedError(409, f"this training is {job.state}: there is nothing to discard")
            self._records.note(ended(job, "discarded"))
        return self.tell(number)

    # In the thread

    def _work(self) -> None:
        for job in [one for one in self._jobs.values() if one.state == "ready" and one.publish]:
            self._publish(job)  # the service was killed in between
        while (next_job := self._next()) is not None:
            try:
                self._train(next_job)
            except Exception as error:
                self._log.error("training broken off", error, id=next_job.id)
                with self._changed:
                    if (job := self._jobs[next_job.id]).state in ("queued", "training"):
                        self._records.note(ended(job, "failed", error=sentence_for(error)))
            self._records.forget(self._limits.ended)

    def _next(self) -> Job | None:
        with self._changed:
            while not self._stopped and self._first() is None:
                self._changed.wait(AGAIN_S)
                self._records.write_again()
            return None if self._stopped else self._first()

    def _first(self) -> Job | None:
        return next((job for job in self._jobs.values() if job.state == "queued"), None)

    def _train(self, job: Job) -> None:
        place = self._place(job)
        with self._changed:
            if self._jobs[job.id].state != "queued":
                return
            job = replace(job, state="training", started=job.started or time.time())
            self._records.note(job)
        Order(
            str(self._publisher.folder),
            job.domain,
            job.suffix,
            self._publisher.device,
            self._watch,
            self._max_forgetting,
        ).write(place.place)
        error = None
        for _ in range(2):  # one that was killed goes on where it was, once
            error = self.run_trainer(job)
            if error is None or self._stopped or self._jobs[job.id].state != "training":
                break
        if self._stopped:
            return
        with self._changed:
            if self._jobs[job.id].state != "training":
                place.clear(job)
                return
            self._end(job, place.result(), error)
        if (job := self._jobs[job.id]).state == "ready" and job.publish:
            self._publish(job)

    def _end(self, job: Job, result: Mapping[str, Any], error: str | None) -> None:
        """Note what has come of a training."""
        if "after" in result:
            self._records.note(ended(job, "ready", before=result["before"], after=result["after"]))
        else:
            self._records.note(ended(job, "failed", error=str(result.get("error") or error or NO_RESULT)))

    def run_trainer(self, job: Job) -> str | None:
        """Train in another process; a sentence if it did not come to its end."""
        command = [sys.executable, "-m", "memgrow.service.trainer", str(self._place(job).place)]
        until = time.monotonic() + self._limits.training_s
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            while process.poll() is None:
                late = time.monotonic() > until
                if late or self._stopped or self._jobs[job.id].state != "training":
                    process.kill()
                    process.wait()
                    return f"the training took longer than {self._limits.training_s:g} seconds" if late else STOPPED
                time.sleep(PAUSE_S)
        if process.returncode == 0:
            return None
        return KILLED.format(-process.returncode) if process.returncode < 0 else NO_RESULT

    def _publish(self, job: Job) -> Exception | None:
        """Make the trained model the one that is served; what stands in the way is told and comes back."""
        with self._changed:
            if self._jobs[job.id].state != "ready":
                return None  # discarded meanwhile
            try:
                version = self._publisher.publish(self._place(job).candidate)
            except Exception as error:
                if not isinstance(error, MemgrowError):
                    self._log.error("not published", error, id=job.id)
                self._records.note(replace(job, error=sentence_for(error)))
                return error
            self._records.note(replace(job, state="published", version=version, error=None))
        return None

    def _find(self, number: str) -> Job:
        if (job := self._jobs.get(number)) is None:
            raise RefusedError(404, "there is no such training: GET /jobs lists them")
        return job

    @property
    def _jobs(self) -> Mapping[str, Job]:
        return self._records.jobs

    def _place(self, job: Job) -> JobFolder:
        return self._records.place(job)
