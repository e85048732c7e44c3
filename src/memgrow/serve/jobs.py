"""The training queue: one training process at a time, then publishing or discarding what it trained.

Each job has a folder with its record, the uploaded file until it is trained, and then the trained model until it is
published or discarded.
A record is changed on disk before the step that it describes, and each step may be repeated: whatever is killed, the
next service continues from the records.
"""

import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal, get_args

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from memgrow.data.disk import atomic_write
from memgrow.data.processes import relay_errors, start_module
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError, listed, quoted
from memgrow.serve.logs import error_message, log, without_folders
from memgrow.serve.model import Publisher
from memgrow.serve.settings import ServeSettings
from memgrow.serve.trainer import CANDIDATE, DATA, PROGRESS, RESULT, Order, load_upload
from memgrow.training.checks import check_stage, domains_of_stage

State = Literal["queued", "training", "ready", "published", "discarded", "failed"]
STATES, ACTIVE = get_args(State), ("queued", "training", "ready")
Suffix = Literal[".jsonl", ".csv", ".tsv"]  # without compression, so that no file becomes larger than it is
JOB_ID = re.compile(r"[0-9a-f]+-[0-9a-f]{8}")
DOMAIN_NAME = re.compile(r"\w[\w .+-]{0,63}")
RECORD, LOCK = "job.json", ".lock"
INCOMING = ".incoming-"  # begins the name of a folder whose upload has not been accepted yet
MAX_ENDED = 100  # finished trainings that are listed
MAX_SAID = 200  # characters of what a training process said last
ADVICE = "choose another folder with --jobs"


class Job(BaseModel):
    """A training: its record on disk, and what clients see of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str = Field(default_factory=lambda: f"{time.time_ns() // 1_000_000:x}-{secrets.token_hex(4)}")
    domain: str
    suffix: Suffix
    publish: bool  # when it has been trained
    columns: dict[str, str] = {}  # by role: text, pair, label, reply
    state: State = "queued"
    started: float | None = None
    ended: float | None = None
    epoch: int | None = None
    epochs: int | None = None
    progress: float = 0.0  # 0 to 1
    seconds: float = 0.0
    before: dict[str, float | None] = {}  # test accuracy by domain
    after: dict[str, float | None] = {}
    error: str | None = None
    version: int | None = None
    digest: str | None = None


def open_jobs_folder(folder: Path, model: Path) -> None:
    """Make the folder of trainings, or check that an existing one belongs to this user and is closed to others.

    What is ready in it may be published without asking.
    """
    if folder.is_relative_to(model):
        raise SettingsError(f"{folder} is in the model's folder: {ADVICE}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise SettingsError(f"{folder} cannot hold trainings ({error.strerror or error}): {ADVICE}") from None
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077):
        raise SettingsError(f"{folder} is another user's or open to others: check it and `chmod 700` it, or {ADVICE}")


def split_name(file_name: str | None, name: str | None) -> tuple[str, Suffix]:
    """The domain's name and the format of an upload. The sender's file name is a label; no path is made of it."""
    suffix = next((one for one in get_args(Suffix) if (file_name or "").lower().endswith(one)), None)
    if file_name is None or suffix is None:
        raise DataError(f"the file is called {quoted(file_name or '')}: its name must end in .jsonl, .csv or .tsv")
    domain = (file_name[: -len(suffix)] if name is None else name).strip()
    if not DOMAIN_NAME.fullmatch(domain):
        raise DataError(
            f"{quoted(domain)} cannot be the name of a domain: use up to 64 letters, digits, spaces and _ . + -, "
            "starting with a letter or digit"
        )
    return domain, suffix


class JobQueue:
    """The trainings of a service, and the thread that runs them one after the other."""

    def __init__(self, publisher: Publisher, settings: ServeSettings) -> None:
        model = publisher.folder
        self.folder = Path(os.path.realpath(settings.jobs or model.with_name(f"{model.name}.jobs")))
        open_jobs_folder(self.folder, model)
        self._publisher, self._settings = publisher, settings
        self._jobs: dict[str, Job] = {}  # in the order in which they were created
        self._lock = threading.RLock()
        self._thread = ThreadPoolExecutor(1, "trainings")
        self._stopped = False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second service from the same trainings."""
        try:
            with FileLock(self.folder / LOCK, timeout=0):
                yield
        except Timeout:
            raise ModelError(
                f"another service uses {self.folder}: stop it, or start this one with --read-only or --jobs FOLDER"
            ) from None

    def start(self) -> None:
        """Continue with the jobs on disk; what is no valid record is left alone."""
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(INCOMING):
                shutil.rmtree(path, ignore_errors=True)
            elif JOB_ID.fullmatch(path.name):
                try:
                    job = Job.model_validate_json((path / RECORD).read_bytes())
                    if path.is_symlink() or job.id != path.name:
                        raise ModelError(f"{path} is a link or a copy")
                except (OSError, ValueError) as error:
                    log("job left alone", error, job=path.name)
                    continue
                self._jobs[job.id] = job.model_copy(update={"state": "queued"}) if job.state == "training" else job
                self._tidy(job)
        for number in [job.id for job in self._jobs.values() if job.state in ACTIVE]:
            self._thread.submit(self._continue, number)

    def stop(self) -> None:
        """End the running training; the next service resumes it."""
        self._stopped = True
        self._thread.shutdown(cancel_futures=True)

    @property
    def is_alive(self) -> bool:
        return not self._stopped

    # For clients

    def add(
        self,
        content: BinaryIO,
        file_name: str | None,
        name: str | None,
        *,
        columns: Mapping[str, str],
        new_labels: bool,
        publish: bool,
    ) -> Job:
        """Check an uploaded file and put it into the queue; `new_labels` allows that it shares none with the model."""
        if sum(job.state in ACTIVE for job in [*self._jobs.values()]) >= self._settings.max_jobs:
            count = self._settings.max_jobs
            raise HTTPException(429, f"{count} trainings are waiting: publish or discard some, or try again later")
        domain, suffix = split_name(file_name, name)
        job = Job(domain=domain, suffix=suffix, publish=publish, columns=dict(columns))
        with TemporaryDirectory(prefix=INCOMING, dir=self.folder) as incoming:
            folder = Path(incoming, job.id)
            folder.mkdir()
            self._check_upload(atomic_write(folder / f"{DATA}{suffix}", content.read()), job, new_labels)
            atomic_write(folder / RECORD, job.model_dump_json())
            folder.rename(self.folder / job.id)
            with self._lock:
                self._jobs[job.id] = job
        self._thread.submit(self._continue, job.id)
        log("job", id=job.id, state=job.state)
        return job

    def list(self) -> list[dict[str, Any]]:
        """All jobs, the latest first."""
        return [self.get(number) for number in reversed([*self._jobs])]

    def get(self, number: str) -> dict[str, Any]:
        job = self._find(number)
        progress = _read_object(self.folder / job.id / PROGRESS) if job.state == "training" else {}
        seconds = round((job.ended or time.time()) - job.started, 1) if job.started else 0.0
        return {**job.model_dump(), "seconds": seconds, **progress}

    def publish(self, number: str) -> dict[str, Any]:
        with self._lock:
            job = self._find(number, ("ready",), "only one that is ready can be published")
            self._publish(self._update(job, publish=True))
        return self.get(number)

    def discard(self, number: str) -> dict[str, Any]:
        with self._lock:
            self._update(self._find(number, ACTIVE, "there is nothing to discard"), state="discarded")
        return self.get(number)

    def _find(self, number: str, states: tuple[str, ...] = STATES, otherwise: str = "") -> Job:
        if (job := self._jobs.get(number)) is None:
            raise HTTPException(404, "there is no such training: GET /jobs lists them")
        if job.state not in states:
            raise HTTPException(409, f"this training is {job.state}: {otherwise}")
        return job

    def _check_upload(self, file: Path, job: Job, new_labels: bool) -> None:
        """Refuse data that this model cannot learn, has learned already, or would learn instead of what it knows."""
        if file.stat().st_size > self._settings.max_upload:
            limit = self._settings.max_upload
            raise HTTPException(413, f"the file is larger than {limit:,} bytes: use `memgrow adapt`")
        learner, name = self._publisher.current.learner, job.domain
        domain = load_upload(file, name, job.columns)
        try:
            domains = domains_of_stage(learner.method, learner.history.domains, domain, ())
            stage = check_stage(domains, learner.task, learner.labels)
        except MemgrowError as error:
            raise type(error)(str(error).replace(file.name, name)) from None
        if learner.history.find(stage.fingerprint):
            raise ModelError(f"the model has already learned {name} from this data")
        if learner.labels and not new_labels and not {*domain.labels} & {*learner.labels}:
            labels = f"its labels are {listed(domain.labels)}, the model's are {listed(learner.labels)}"
            advice = "the model may forget what it knows; confirm that the labels are right (new_labels)"
            raise HTTPException(428, f"{name} shares no label with the model: {labels}; {advice}")

    # Records

    def _update(self, job: Job, **changes: Any) -> Job:
        """Change a job in memory and on disk. If the disk is full it goes on from memory."""
        with self._lock:
            if changes.get("state", "training") != "training":
                changes["ended"] = job.ended or time.time()
            job = self._jobs[job.id] = job.model_copy(update=changes)
            if "state" in changes:
                log("job", id=job.id, state=job.state, version=job.version, digest=job.digest)
            try:
                atomic_write(self.folder / job.id / RECORD, job.model_dump_json())
            except OSError as error:
                log("record not written", error, id=job.id)
                if job.state in ACTIVE:
                    return job  # with its files: the next service repeats the step
            self._tidy(job)
            return job

    def _tidy(self, job: Job) -> None:
        """Remove the uploaded texts of a trained job, and all files but the record of one that has ended."""
        if job.state == "ready":
            (self.folder / job.id / f"{DATA}{job.suffix}").unlink(missing_ok=True)
        for path in (self.folder / job.id).iterdir() if job.state not in ACTIVE else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != RECORD:
                path.unlink(missing_ok=True)

    # In the thread

    def _continue(self, number: str) -> None:
        """Train a queued job; publish one that was ready when the service was killed."""
        with self._lock:
            if (job := self._jobs[number]).state == "queued":
                job = self._update(job, state="training", started=time.time())
        try:
            if job.state == "training":
                self._train(job)
            if (job := self._jobs[number]).state == "ready" and job.publish:
                self._publish(job)
        except Exception as error:
            if not isinstance(error, MemgrowError):
                log("training failed", error, id=number)
            with self._lock:
                if (job := self._jobs[number]).state == "training":
                    self._update(job, state="failed", error=error_message(error))
        with self._lock:
            ended = [job for job in self._jobs.values() if job.state not in ACTIVE]
            for job in ended[:-MAX_ENDED]:
                del self._jobs[job.id]
                shutil.rmtree(self.folder / job.id, ignore_errors=True)

    def _train(self, job: Job) -> None:
        (self.folder / job.id / RESULT).unlink(missing_ok=True)
        error = self.run_trainer(job)
        if error and not self._is_over(job):
            error = self.run_trainer(job)  # once more: it resumes where it was killed
        with self._lock:
            result = _read_object(self.folder / job.id / RESULT)
            if self._is_over(job):
                self._tidy(self._jobs[job.id])
            elif "after" in result:
                self._update(job, state="ready", progress=1.0, **result)
            else:
                self._update(job, state="failed", error=str(result.get("error") or error))

    def _is_over(self, job: Job) -> bool:
        return self._stopped or self._jobs[job.id].state != "training"

    def run_trainer(self, job: Job) -> str | None:
        """Train in another process; an error message if it did not finish."""
        folder, settings = self.folder / job.id, self._settings
        watch = [str(path.absolute()) for path in settings.watch]
        model = str(self._publisher.folder)
        order = Order(model, job.domain, job.suffix, settings.device, watch, settings.max_forgetting, job.columns)
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with (
            ThreadPoolExecutor(1, "errors") as relay,
            start_module("memgrow.serve.trainer", str(folder), cwd=folder, bufsize=0, **pipes) as process,
        ):
            assert process.stdin is not None
            assert process.stderr is not None
            relayed = relay.submit(relay_errors, process.stderr)
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
            while process.poll() is None:
                if self._is_over(job):
                    process.kill()
                time.sleep(0.05)
            lines = relayed.result()
        if process.returncode == 0:
            return None
        log("trainer failed", id=job.id, code=process.returncode)
        if process.returncode < 0:
            return f"the training process was killed (signal {-process.returncode}): is there enough memory?"
        said = "".join(f"; it said: {without_folders(line)[:MAX_SAID]}" for line in lines[-1:])
        return f"the training process failed (exit code {process.returncode}): see the log of the service{said}"

    def _publish(self, job: Job) -> None:
        """Make the trained model the served one, unless it was discarded meanwhile; an error is recorded."""
        with self._lock:
            if self._jobs[job.id].state == "ready":
                try:
                    model = self._publisher.publish(self.folder / job.id / CANDIDATE)
                except Exception as error:
                    self._update(job, error=error_message(error))
                    raise
                self._update(job, state="published", error=None, **model.identity)


def _read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one if there is none."""
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
