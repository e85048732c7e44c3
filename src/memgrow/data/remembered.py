"""Test files of a model: where its test rows come from, so that later commands test the same rows and no other.

They are noted in the model's folder, as paths and checksums. Exports and copies by `Learner.save` leave the note out.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memgrow.data.disk import atomic_write, pack_json, read_json, sha256_of
from memgrow.data.rows import Columns
from memgrow.errors import MemgrowError

NOTE = "tests.json"


@dataclass(frozen=True)
class TestFile:
    """A file with test rows, and how they were read."""

    sha256: str
    columns: Columns
    limit: int | None
    drawn: bool  # from the file's training rows: the others of its rows were trained on

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TestFile":
        columns = {**value["columns"], "labels": tuple(map(tuple, value["columns"].get("labels", ())))}
        return cls(value["sha256"], Columns(**columns), value["limit"], value["drawn"])


def read_test_files(folder: Path) -> dict[Path, TestFile]:
    """The test files that are noted in a model's folder; none if the note is missing or damaged."""
    with suppress(MemgrowError, OSError, AttributeError, KeyError, TypeError, ValueError):
        return {Path(path): TestFile.from_json(value) for path, value in read_json(folder / NOTE).items()}
    return {}


def note_test_files(folder: Path, files: Mapping[Path, bool], columns: Columns, limit: int | None) -> None:
    """Note test files, and whether their rows were drawn; a file that the model has learned stays one."""
    known = read_test_files(folder)
    learned = {one.sha256 for one in known.values() if one.drawn}
    given = {path.absolute(): TestFile(sha256_of(path), columns, limit, drawn) for path, drawn in files.items()}
    new = known | {path: one for path, one in given.items() if one.drawn or one.sha256 not in learned}
    if new != known:
        atomic_write(folder / NOTE, pack_json({str(path): asdict(one) for path, one in new.items()}))
