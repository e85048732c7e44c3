"""Trainings that the service was asked for, as they stand on the disk: a folder each, so that a kill loses none.

A job's folder holds its record, the uploaded file until the training has ended, what the trainer says of its progress,
and the trained model until it has been published or discarded. The record is written last: a folder without one is of
an upload that was never accepted.
"""

import errno
import json
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from memgrow.device import is_out_of_memory
from memgrow.errors import MemgrowError, ModelError, brief
from memgrow.kinds import wrong_part
from memgrow.service.uploads import STORED, SUFFIXES
from memgrow.storage import atomic_write, pack_json, parse_json

RECORD, PROGRESS, RESULT, CANDIDATE = "job.json", "progress.json", "result.json", "model"
State = Literal["queued", "training", "ready", "published", "discarded", "failed"]
UNDER_WAY = ("queued", "training", "ready")
NAME = re.compile(r"[0-9a-f]+-[0-9a-f]{8}")  # of a job's folder
# What lies in a folder before its record does.
UPLOADED = re.compile(rf"{STORED}({'|'.join(map(re.escape, SUFFIXES))})|\.{re.escape(RECORD)}\.\d+\.writing")


@dataclass(frozen=True)
class Job:
    """One training: what is asked for and what has become of it."""

    id: str
    domain: str
    suffix: str
    publish: bool  # without being asked again
    created: float
    state: State = "queued"
    started: float | None = None
    ended: float | None = None
    before: Mapping[str, float | None] = field(default_factory=dict)  # None of what is infinite
    after: Mapping[str, float | None] = field(default_factory=dict)
    error: str | None = None
    version: int | None = None

    @classmethod
    def new(cls, domain: str, suffix: str, publish: bool) -> "Job":
        now = time.time()
        return cls(f"{int(now * 1000):x}-{secrets.token_hex(4)}", domain, suffix, publish, now)


class JobFolder:
    """The folder of one job."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def create(self) -> None:
        self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.place.mkdir(mode=0o700)  # it holds texts of a user's

    def data(self, suffix: str) -> Path:
        return self.place / f"{STORED}{suffix}"

    @property
    def candidate(self) -> Path:
        return self.place / CANDIDATE

    def write(self, job: Job) -> None:
        atomic_write(self.place / RECORD, pack_json(asdict(job)))

    def read(self) -> Job | None:
        """The record; None where there is none at all, and an error if it is not one that this memgrow writes."""
        try:
            job = Job(**parse_json((self.place / RECORD).read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, TypeError, ValueError, RecursionError) as error:
            raise ModelError(f"{RECORD} cannot be read ({brief(error)})") from error
        if (wrong := wrong_part(job, Job, RECORD)) or job.suffix not in SUFFIXES or job.id != self.place.name:
            raise ModelError(f"{RECORD} is not what this memgrow writes here ({wrong or 'of another job'})")
        return job

    def is_broken_upload(self) -> bool:
        """Whether there is no more than an upload leaves that was broken off."""
        return all(UPLOADED.fullmatch(found.name) and found.is_file() for found in self.place.iterdir())

    def tidy(self, job: Job) -> None:
        """Remove what a job in its state no longer needs."""
        if job.state == "ready":
            self.data(job.suffix).unlink(missing_ok=True)
        elif job.state not in UNDER_WAY:
            self.clear(job)

    def clear(self, job: Job) -> None:
        """Remove all but the record: texts first."""
        self.data(job.suffix).unlink(missing_ok=True)
        for found in self.place.iterdir():
            if found.name == RECORD:
                continue
            if found.is_dir():
                shutil.rmtree(found, ignore_errors=True)
            else:
                found.unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def progress(self) -> dict[str, Any]:
        """What the trainer said last."""
        return read_object(self.place / PROGRESS)

    def result(self) -> dict[str, Any]:
        """What has come of the training; nothing as long as it has not ended."""
        return read_object(self.place / RESULT)


def told(job: Job, progress: Mapping[str, Any]) -> dict[str, Any]:
    """A job as it is told to those who ask."""
    end = job.ended or time.time()
    done = job.state in ("ready", "published")
    return {
        "id": job.id,
        "domain": job.domain,
        "state": job.state,
        "epoch": progress.get("epoch"),
        "epochs": progress.get("epochs"),
        "progress": 1.0 if done else progress.get("progress", 0.0) if job.state == "training" else 0.0,
        "seconds": round(end - job.started, 1) if job.started else 0.0,
        "before": dict(job.before),
        "after": dict(job.after),
        "error": job.error,
        "publish": job.publish,
        "version": job.version,
    }


def ended(job: Job, state: State, **changes: Any) -> Job:
    return replace(job, state=state, ended=time.time(), **changes)


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one where there is none."""
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def is_full(error: BaseException) -> bool:
    """Whether a disk, or what a user may write to it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def sentence_for(error: BaseException) -> str:
    """What is told of an error; of one that nobody foresaw only its kind, as it may repeat a text."""
    if isinstance(error, MemgrowError):
        return str(error)
    if is_out_of_memory(error):
        return "there is not enough memory for this: send less, or run the service where there is more"
    if is_full(error):
        return "the service's disk is full: make room on it, and try again"
    if isinstance(error, OSError):
        return (
            f"the service's machine refused this ({error.strerror or type(error).__name__}): see to it, and try again"
        )
    return f"a fault of memgrow's own ({type(error).__name__}): the same file may be tried with memgrow adapt"
