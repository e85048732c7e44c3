"""No room or no permission: one line and exit code 2, nothing half-written, and the same model once there is."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from memgrow.data.remembered import NOTE
from torture.children import (
    MAKING,
    can_mount,
    count_operations,
    memgrow,
    mount_tmpfs,
    no_room_from,
    run,
)
from torture.models import Kind, files_of, state

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
PAGE, PAGES, ENOUGH = os.sysconf("SC_PAGE_SIZE"), 60, "size=64m,nr_inodes=10000"
NOBODY = 65534
Count = Callable[[str, int], None]


@pytest.mark.parametrize("what", ["new model", "second domain", "undo"])
@pytest.mark.parametrize("kind", ["BiLSTM, F+M+V", "encoder, F+E"])
def test_from_some_operation_on_there_is_no_room(
    kind: str, what: str, kinds: dict[str, Kind], tmp_path: Path, count: Count
) -> None:
    one, before = kinds[kind], tmp_path / "before"
    before.mkdir()
    if what != "new model":
        one.make(before / "m", domains=1 if what == "second domain" else 2)

    def work(model: Path) -> Callable[[], None]:
        words = {
            "new model": ("adapt", model, one.data[0], *one.options),
            "second domain": ("adapt", model, one.data[1]),
            "undo": ("undo", model),
        }
        return memgrow(*words[what], "--quiet")

    whole = shutil.copytree(before, tmp_path / "whole") / "m"
    operations = count_operations(work(whole), whole.parent, MAKING)
    old, new, refused = state(before / "m"), state(whole), 0
    for number in range(operations):
        model = shutil.copytree(before, tmp_path / str(number)) / "m"
        ended = run(work(model), no_room_from(number, model.parent, ERRORS[number % len(ERRORS)]))
        assert ended.refused or ended.code == 0, f"from operation {number}: {ended}"
        assert state(model) == (old if ended.code else new), f"from operation {number}: {ended}"
        if ended.code:
            refused += 1
            again = run(work(model))
            assert again.code == 0, f"from operation {number}: {again.output}"
            assert state(model) == new, f"from operation {number}"
        expected = files_of(whole)
        if not ended.code and NOTE not in files_of(model):  # written last; a command does without it
            expected.remove(NOTE)
        assert files_of(model) == expected, f"from operation {number}"
        shutil.rmtree(model.parent)
    assert refused or what == "undo"
    count("commands that found no room", refused)


@pytest.mark.parametrize("kind", ["BiLSTM, F+M+V", "encoder, F+E"])
def test_a_disk_that_is_too_small(kind: str, kinds: dict[str, Kind], tmp_path: Path, count: Count) -> None:
    """A file system in memory with room for the old model and a few pages; each command finds some more."""
    if not can_mount():
        pytest.skip("nothing can be mounted here")
    one, disk = kinds[kind], tmp_path / "disk"
    disk.mkdir()
    before = one.make(tmp_path / "before" / "m", domains=1)
    whole = shutil.copytree(before.parent, tmp_path / "whole") / "m"
    assert run(memgrow("adapt", whole, one.data[1], "--quiet")).code == 0
    old, new = state(before), state(whole)

    def work() -> None:
        mount_tmpfs(disk, ENOUGH)
        model = shutil.copytree(before, disk / "m")
        used = os.statvfs(disk)
        taken, inodes = used.f_blocks - used.f_bfree, used.f_files - used.f_ffree
        refused = 0
        for more in range(0, PAGES, 3):
            names = inodes + more // 3 if more % 2 else 10_000
            mount_tmpfs(disk, f"size={(taken + more) * PAGE},nr_inodes={names}", again=True)
            ended = run(memgrow("adapt", model, one.data[1], "--quiet"))
            if ended.code == 0:
                break
            refused += 1
            assert ended.refused, f"with {more} pages: {ended}"
            assert state(model) == old, f"with {more} pages"
        mount_tmpfs(disk, ENOUGH, again=True)
        ended = run(memgrow("adapt", model, one.data[1], "--quiet"))
        assert ended.code == 0, ended
        assert state(model) == new
        assert refused
        print(refused)

    ended = run(work)
    assert ended.code == 0, ended.output
    count("commands on a disk that was too small", int(ended.output))


OBSTACLES = {  # modes of paths, and whether the command is refused
    "the model is read-only": ({"models/m": 0o555}, True),
    "the model cannot be entered": ({"models/m": 0o600}, True),
    "the folder above cannot be entered": ({"models": 0o600}, True),
    "the folder above is read-only": ({"models": 0o555}, False),
    "its manifest cannot be read": ({"models/m/manifest.json": 0o000}, True),
    "the data cannot be read": ({"data.jsonl": 0o000}, True),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_user_without_permission(obstacle: str, kinds: dict[str, Kind], count: Count) -> None:
    """As root, the command is run by somebody else: nothing is forbidden to root."""
    modes, refused = OBSTACLES[obstacle]
    one = kinds["BiLSTM, F+M+V"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, data = folder / "models" / "m", folder / "data.jsonl"
        model.parent.mkdir()
        one.make(model, domains=1)
        shutil.copy(one.data[1], data)
        paths = [folder, *folder.rglob("*")]
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)
            if os.geteuid() == 0:
                os.chown(path, NOBODY, NOBODY)
        old = state(model)
        for name, mode in modes.items():
            (folder / name).chmod(mode)
        ended = run(memgrow("adapt", model, data, "--quiet"), become_nobody)
        for path in paths:
            if path.exists():
                path.chmod(0o755 if path.is_dir() else 0o644)
        assert ended.refused if refused else ended.code == 0, ended
        assert (state(model) == old) == refused
        if refused:
            assert run(memgrow("adapt", model, data, "--quiet"), become_nobody).code == 0
    count("missing permissions", 1)


def become_nobody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
