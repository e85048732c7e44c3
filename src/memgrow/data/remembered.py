"""Test files of a model: where its test rows come from, so that later commands test the same rows and no other.

They are noted in the model's folder, as paths and checksums. Exports and copies by `Learner.save` leave the note out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memgrow.data.disk import atomic_write, pack_json, read_json, sha256_of
from memgrow.data.files import domain_and_part
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


def test_files(
    paths: Iterable[Path], given: Iterable[Path], tested: Iterable[str], drawn: Iterable[str], *, by: bool
) -> dict[Path, bool]:
    """The files of `paths` and `given`, the files of tests alone, that have test rows; and whether these were drawn.

    `tested` and `drawn` are the domains that have test rows, and those whose rows were drawn. What was drawn from
    several files is left out, as it cannot be drawn again from one. With `by`, a file has several domains.
    """
    tested, drawn, given = set(tested), set(drawn), list(given)
    named = {path: domain_and_part(path) for path in paths}
    found = {path: False for path, (_, part) in named.items() if part == "test"} | dict.fromkeys(given, False)
    explicit = {named[path][0] for path in found if path in named}
    files = Counter("" if by else name for name, part in named.values() if part != "validation")
    for path, (name, part) in named.items():
        domains = tested if by else {name} & tested
        if part in ("test", "validation") or name in explicit or not domains:
            continue
        if domains <= drawn and files["" if by else name] == 1:
            found[path] = True
        elif not domains & drawn and not given:
            found[path] = False
    return found


def read_test_files(folder: Path) -> dict[Path, TestFile]:
    """The test files that are noted in a model's folder; none if the note is missing or damaged."""
    with suppress(MemgrowError, OSError, AttributeError, KeyError, TypeError, ValueError):
        return {Path(path): TestFile.from_json(value) for path, value in read_json(folder / NOTE).items()}
    return {}


def note_test_files(folder: Path, files: Mapping[Path, bool], columns: Columns, limit: int | None) -> None:
    """Note test files, and whether their rows were drawn; a file that the model has learned stays one."""
    known = read_test_files(folder)
    learned = {one.sha256 for one in known.values() if one.drawn}
    given = {
        path.absolute(): TestFile(sha256_of(path), columns, limit, drawn)
        for path, drawn in files.items()
        if path.is_file()
    }
    new = known | {path: one for path, one in given.items() if one.drawn or one.sha256 not in learned}
    if new != known:
        atomic_write(folder / NOTE, pack_json({str(path): asdict(one) for path, one in new.items()}))
