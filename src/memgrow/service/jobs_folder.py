"""The folder of a service's trainings: whose it may be, what an earlier service left there, and the records in it.

Nothing is removed but what a service made: a folder of the name that jobs have, and of these one without a record that
holds no more than an upload which was broken off. What is not understood stays, and the log names it.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from memgrow.errors import MemgrowError, ModelError, SettingsError, listed
from memgrow.service.jobs import NAME, UNDER_WAY, Job, JobFolder
from memgrow.service.logs import Log

ADVICE = "give trainings a folder of their own (--jobs FOLDER), which is empty or not there yet"
OF_THE_SYSTEM = "lost+found"  # at the root of a volume that is there for trainings alone


def check_jobs_folder(folder: Path, model: Path) -> None:
    """Refuse a folder that is not there for trainings alone; both paths are real ones."""
    if folder == model or folder in model.parents or model in folder.parents:
        raise SettingsError(f"trainings cannot lie in {folder}, for the model {model} is in it, or holds it: {ADVICE}")
    try:
        found = [place.name for place in folder.iterdir()]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise SettingsError(f"trainings cannot lie in {folder}, as that or a part of it is a file: {ADVICE}") from None
    except OSError as error:
        raise ModelError(f"{folder} cannot be read ({error.strerror or error}): allow it, or {ADVICE}") from None
    others = sorted(name for name in found if not (NAME.fullmatch(name) or name[0] == "." or name == OF_THE_SYSTEM))
    if others:
        raise SettingsError(f"{folder} holds what is no training ({listed(others, most=3)}): {ADVICE}")


class JobRecords:
    """All jobs of a service, in memory and on the disk."""

    def __init__(self, folder: Path, log: Log) -> None:
        self.folder, self._log = folder, log
        self.jobs: Mapping[str, Job] = {}  # replaced and never changed, so that who reads needs no lock
        self._unwritten = set[str]()  # jobs whose record on the disk is an older one
        self._changing = threading.RLock()

    def place(self, job: Job) -> JobFolder:
        return JobFolder(self.folder / job.id)

    def take_up(self) -> None:
        """Find the jobs that an earlier service left; what it had no time to remove is removed."""
        found: dict[str, Job] = {}
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if not NAME.fullmatch(path.name):
                continue
            try:
                if (job := _read(JobFolder(path))) is not None:
                    found[job.id] = replace(job, state="queued") if job.state == "training" else job
                    JobFolder(path).tidy(job)
            except (MemgrowError, OSError) as error:
                self._log.write("job left alone", job=path.name, sentence=str(error))
        self.jobs = found

    def write(self, job: Job) -> None:
        """Change a job, on the disk first; if that cannot be, it is as it was."""
        with self._changing:
            self.place(job).write(job)
            self._take(job)
            self._unwritten.discard(job.id)
            self.write_again()

    def note(self, job: Job) -> None:
        """Change a job by what has happened, whatever the disk says: there it is changed once there is room.

        What it no longer needs is removed.
        """
        with self._changing:
            self._take(job)
            self._unwritten.add(job.id)
            self.write_again()
            if job.id in self._unwritten:
                self._log.write("record not written", id=job.id, state=job.state)

    def write_again(self) -> None:
        """Write the records for which there was no room."""
        with self._changing:
            for job in [self.jobs[number] for number in self._unwritten]:
                try:
                    self._write_with_room(job)
                    self._unwritten.discard(job.id)
                    self.place(job).tidy(job)
                except OSError:
                    continue  # the queue tries again after a while

    def forget(self, most: int) -> None:
        """Tell no longer of the oldest that have ended, but for so many."""
        with self._changing:
            over = [job for job in self.jobs.values() if job.state not in UNDER_WAY]
            for job in sorted(over, key=lambda one: one.created)[:-most]:
                self.jobs = {number: one for number, one in self.jobs.items() if number != job.id}
                self._unwritten.discard(job.id)
                self.place(job).remove()

    def _take(self, job: Job) -> None:
        if (old := self.jobs.get(job.id)) is None or old.state != job.state:
            self._log.write("job", id=job.id, state=job.state, version=job.version)
        self.jobs = {**self.jobs, job.id: job}

    def _write_with_room(self, job: Job) -> None:
        try:
            self.place(job).write(job)
        except OSError:
            if job.state not in ("failed", "discarded"):
                raise
            self.place(job).clear(job)  # what it leaves makes room for its own record
            self.place(job).write(job)


def _read(place: JobFolder) -> Job | None:
    """The job that a folder is of; None if the folder was of an upload that was never accepted, and has gone."""
    if place.place.is_symlink() or not place.place.is_dir():
        raise ModelError("a link or a file, which no service makes there")
    if (job := place.read()) is None:
        if not place.is_broken_upload():
            raise ModelError("it has no record, and holds more than an upload that was broken off")
        place.remove()
    return job
