"""A process that is killed before any file operation leaves the old version or the new one, whole."""

import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from memgrow import Learner, undo
from memgrow.cli.model import remove_domain
from memgrow.data import disk
from memgrow.errors import ModelError
from memgrow.storage.checkpoint import find_faults
from memgrow.storage.versions import list_versions, note_keep_versions
from tests.golden.test_models import MODELS
from tests.storage.conftest import SHORT, SMALL, answers, load

CALLS = ("mkdir", "rename", "replace", "link", "unlink", "rmdir", "fsync", "open")


class KilledError(BaseException):
    pass


@contextmanager
def killed_before(
    number: int, stop: Callable[[], BaseException] = KilledError, calls: Sequence[str] = CALLS
) -> Iterator[None]:
    """Every operation from the number-th on raises, as nothing runs after a kill."""
    done: list[str] = []

    def counted(name: str, call: Callable[..., object], writes: Callable[..., bool]) -> Callable[..., object]:
        def wrapped(*given: object, **named: object) -> object:
            if not writes(*given, **named):
                return call(*given, **named)
            if len(done) >= number:
                raise stop()
            done.append(name)
            return call(*given, **named)

        return wrapped

    def always(*_: object, **__: object) -> bool:
        return True

    with pytest.MonkeyPatch.context() as patch:
        for name in calls:
            opens = name == "open"
            check = (lambda path, flags, *_, **__: bool(flags & os.O_CREAT)) if opens else always
            patch.setattr(os, name, counted(name, getattr(os, name), check))
        to_write = lambda path, mode="r", *_, **__: "r" not in mode  # noqa: E731
        patch.setattr(io, "open", counted("io.open", io.open, to_write))
        patch.setattr(disk, "save_file", counted("save_file", disk.save_file, always))
        yield


def each_kill(act: Callable[[Path], object], before: Path, tmp_path: Path) -> Iterator[Path]:
    """The folder after `act` was killed before its first operation, its second, and so on until it was not."""
    for number in range(1000):
        folder = Path(shutil.copytree(before, tmp_path / f"{number}" / "m"))
        with killed_before(number):
            try:
                act(folder)
            except KilledError:
                pass
            else:
                return
        yield folder
        shutil.rmtree(folder.parent)
    raise AssertionError


def test_a_killed_save_leaves_the_old_version_or_the_new_one(stages, tmp_path) -> None:
    stages[1].save(tmp_path / "old")
    stages[2].save(tmp_path / "old")
    seen = []
    for folder in each_kill(stages[3].save, tmp_path / "old", tmp_path):
        assert not find_faults(folder)
        seen.append(len(load(folder).history.stages))
        assert answers(load(folder)) == answers(stages[seen[-1]])
        assert [one.number for one in list_versions(folder)][:2] == [seen[-1], seen[-1] - 1]
        stages[3].save(folder)  # which clears what was left
        assert sorted(path.name for path in folder.iterdir()) == [".lock", "manifest.json", "versions"]
        names = sorted(path.name for path in (folder / "versions").iterdir())
        assert names in (["0001", "0002", "0003"], ["0001", "0002", "0004"])  # the last one was saved once or twice
        assert answers(load(folder)) == answers(stages[3])
    assert seen == sorted(seen)
    assert set(seen) == {2, 3}
    assert len(seen) > 20


def test_a_killed_first_save_can_be_repeated(stages, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in each_kill(stages[1].save, tmp_path / "empty", tmp_path):
        if (folder / "manifest.json").exists():
            assert answers(load(folder)) == answers(stages[1])
        else:
            with pytest.raises(ModelError):
                load(folder)
        stages[1].save(folder)
        assert answers(load(folder)) == answers(stages[1])


def test_a_killed_undo_leaves_the_model_or_the_earlier_one(stages, saved, tmp_path) -> None:
    seen = []
    for folder in each_kill(undo, saved, tmp_path):
        assert not find_faults(folder)
        seen.append(len(load(folder).history.stages))
        assert answers(load(folder)) == answers(stages[seen[-1]])
    assert set(seen) == {3, 2}


def test_a_killed_removal_of_a_domain_leaves_the_model_with_it_or_without(domains, tmp_path) -> None:
    learner, (first, *rest) = Learner.create("F+V+R", model=SMALL, training=SHORT, device="cpu"), domains.names
    learner.learn(domains, folder=tmp_path / "old")
    seen = []
    for folder in each_kill(lambda folder: remove_domain(folder, first), tmp_path / "old", tmp_path):
        assert not find_faults(folder)
        names = load(folder).history.domains
        assert names in ((first, *rest), (*rest,))
        seen.append(len(names))
        if len(names) == 3:
            assert [one.number for one in list_versions(folder)] == [3, 2, 1]
            remove_domain(folder, first)
        else:
            with pytest.raises(ModelError, match="no domain"):
                remove_domain(folder, first)
        assert load(folder).history.domains == (*rest,)
        assert len(list((folder / "versions").iterdir())) == len(list_versions(folder)) == 1, "nothing of it is left"
    assert set(seen) == {2, 3}


def test_a_killed_conversion_of_an_older_format_leaves_a_model(tmp_path) -> None:
    old = MODELS / "text-two-versions"
    digests = [one.digest for one in list_versions(old)]
    for folder in each_kill(lambda folder: note_keep_versions(folder, 3), old, tmp_path):
        assert not find_faults(folder)
        note_keep_versions(folder, 3)
        assert [one.digest for one in list_versions(folder)] == digests
        assert sorted(path.name for path in folder.iterdir()) == [".lock", "manifest.json", "versions"]


def test_a_full_disk_is_one_sentence_and_changes_nothing(stages, saved, tmp_path) -> None:
    def full() -> OSError:
        return OSError(errno.ENOSPC, "No space left on device")

    refused = 0
    for number in range(1, 30, 3):
        folder = Path(shutil.copytree(saved, tmp_path / f"{number}" / "m"))
        with killed_before(number, full, ("mkdir", "link", "fsync", "open")):
            try:
                stages[3].save(folder)
            except ModelError as error:
                refused += "No space left" in str(error)
        assert not find_faults(folder)
        assert answers(load(folder)) == answers(stages[3])
    assert refused > 3
