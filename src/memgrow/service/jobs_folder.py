"""The folder of a service's trainings: whose it may be, and what an earlier service left there.

Nothing is removed but what a service made: a folder of the name that jobs have, and of these one without a record that
holds no more than an upload which was broken off. What is not understood stays, and the log names it.
"""

from pathlib import Path

from memgrow.errors import MemgrowError, ModelError, SettingsError, listed
from memgrow.service.jobs import NAME, Job, JobFolder
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


def take_up(folder: Path, log: Log) -> dict[str, Job]:
    """The jobs that an earlier service left; what it had no time to remove is removed."""
    found: dict[str, Job] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not NAME.fullmatch(path.name):
            continue
        place = JobFolder(path)
        try:
            if (job := _read(place)) is not None:
                found[job.id] = job
                place.tidy(job)
        except (MemgrowError, OSError) as error:
            log.write("job left alone", job=path.name, sentence=str(error))
    return found


def _read(place: JobFolder) -> Job | None:
    """The job that a folder is of; None if the folder was of an upload that was never accepted, and has gone."""
    if place.place.is_symlink() or not place.place.is_dir():
        raise ModelError("a link or a file, which no service makes there")
    if (job := place.read()) is None:
        if not place.is_broken_upload():
            raise ModelError("it has no record, and holds more than an upload that was broken off")
        place.remove()
    return job
