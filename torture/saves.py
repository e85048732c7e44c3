"""Saves that are killed before each of their file operations in turn: a reader finds the old model or the new one."""

import signal
import tempfile
from functools import partial
from pathlib import Path

from memgrow.folder_reader import read_folder
from memgrow.folder_writer import write_folder
from memgrow.locking import hold
from memgrow.manifest import stored_at

from memgrow import folder_writer, folders, locking
from memgrow.storage import Content, StoredFile
from torture.budget import Budget, Counts, Report
from torture.children import in_child
from torture.fail_points import kill_before

FILES: dict[str, Content] = {"a.json": b"{}\n", "b.bin": b"\x00\x01" * 1000, "large": b"\x02" * 1000}
NEW: dict[str, Content] = {**FILES, "n": b"1"}
WAYS = ("exchange", "two renames", "within")  # by which a new version takes the old one's place
LINKED = ("written", "linked")  # the large file


def run(budget: Budget, report: Report) -> Counts:
    """Every operation of a save, in every way that a system may need; they are few."""
    kills = 0
    with tempfile.TemporaryDirectory() as place:
        for number, (way, linked) in enumerate((way, linked) for way in WAYS for linked in LINKED):
            if budget.over:
                break
            kills += _save_killed_everywhere(Path(place, str(number)), way, linked == "linked", report)
            report.tell(number + 1, len(WAYS) * len(LINKED), f"kinds of saves, {kills} kills")
    return {"kills in a save": kills}


def _save_killed_everywhere(place: Path, way: str, linked: bool, report: Report) -> int:
    """How often one save was killed before it succeeded."""
    path = place / "m"
    write_folder(path, FILES)
    (path / "NOTES.txt").write_text("mine")

    def save(number: int) -> None:
        if way != "exchange":
            folders.exchange = lambda a, b: False
        for module in (folders, folder_writer, locking):
            module.replaceable = lambda path: way != "within"  # type: ignore[attr-defined]
        kill_before(number, place)
        with hold(path):
            large = {"large": StoredFile.open(stored_at(path, "large"))} if linked else {}
            write_folder(path, {**NEW, **large})

    for number in range(1000):
        status = in_child(partial(save, number))
        what = f"a save ({way}{', a file linked' * linked}) killed before operation {number}"
        try:
            if read_folder(path) not in (FILES, NEW):
                report.fail(f"{what} left a mixture")
            if not any((folder / "NOTES.txt").exists() for folder in (path, folders.put_aside(path) or path)):
                report.fail(f"{what} lost a user's file")
        except Exception as error:
            report.fail(f"{what} cannot be read: {error}")
            return number
        if status != -signal.SIGKILL:
            break
    if status != 0:
        report.fail(f"{what} ended with {status}")
    with hold(path):
        pass
    if read_folder(path) != NEW or {left.name for left in place.iterdir()} != {"m"}:
        report.fail(f"{what}: {sorted(left.name for left in place.iterdir())} is left")
    return number
