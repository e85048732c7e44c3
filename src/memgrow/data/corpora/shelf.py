"""A corpus's folder among the others: put there whole or not at all, with a note of what memgrow wrote into it."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memgrow.errors import DataError

NOTE = "corpus.json"


@contextmanager
def replacing(folder: Path, name: str) -> Iterator[Path]:
    """An empty folder to be filled, which then takes the place of `folder`; after an error nothing has changed."""
    beside = folder.with_name(
        f".{folder.name}.unpacking"
    )  # one name, so that the next run clears what a killed one left
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        files = {path.name: path.stat().st_size for path in sorted(beside.iterdir())}
        note = json.dumps({"corpus": name, "files": files}, indent=1) + "\n"
        (beside / NOTE).write_text(note, encoding="utf-8")
        old = folder.with_name(f".{folder.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        beside.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def refuse_strange(folder: Path) -> None:
    """A folder that memgrow did not write is not replaced."""
    if folder.is_symlink() or (folder.exists() and not (folder / NOTE).is_file()):
        raise DataError(
            f"{folder} is there and is not memgrow's own; move it away, or set MEMGROW_DATA to another folder"
        )


def refuse_damaged(folder: Path) -> None:
    """The files that memgrow wrote must be as long as they were; a folder of the user's own is taken as it is."""
    if not (folder / NOTE).is_file():
        return
    try:
        note = json.loads((folder / NOTE).read_bytes())
        name, files = str(note["corpus"]), dict(note["files"])
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{folder / NOTE} is damaged; remove {folder} and fetch the corpus again") from None
    for file, size in files.items():
        path = folder / file
        if not path.is_file() or path.stat().st_size != size:
            raise DataError(f"{path} is not as it was written; run `memgrow data get {name} --again`")
