"""A place for an export: a folder that is written whole or not at all, and over nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memgrow.errors import ModelError
from memgrow.folder_writer import narrow
from memgrow.folders import atomic_folder, contents
from memgrow.manifest import MANIFEST
from memgrow.places import expanded


def free_place(path: str | Path) -> Path:
    """Where a new folder can be, as an absolute path; a sentence if something is there, or a model around it."""
    place = Path(os.path.realpath(expanded(path)))
    if os.path.lexists(place) and (not place.is_dir() or contents(place)):
        raise ModelError(
            f"{path} is there already, and an export replaces nothing: choose another name, or move it away"
        )
    if around := next((folder for folder in place.parents if (folder / MANIFEST).is_file()), None):
        raise ModelError(
            f"{path} would be within the model {around}, which changes as it learns: choose a place outside"
        )
    return place


@contextmanager
def new_folder(path: str | Path, like: Path | None) -> Iterator[Path]:
    """An empty folder to fill, which becomes `path` at the end of the block; after an error nothing is there.

    It is open to those whom the umask allows and, if it is made of a model's folder, `like`, that one too.
    """
    place = free_place(path)
    made = [parent for parent in place.parents if not parent.exists()]
    try:
        with atomic_folder(place, like) as beside:
            yield beside
            if like is not None:
                for written in beside.iterdir():
                    narrow(written, like)
            free_place(path)  # somebody may have come before us
    except OSError as error:
        raise ModelError(
            f"could not write {path} ({error.strerror or error}): make room or choose another "
            "place; nothing is left there"
        ) from error
    finally:
        for parent in made:  # those that we made and that stayed empty
            with suppress(OSError):
                parent.rmdir()
