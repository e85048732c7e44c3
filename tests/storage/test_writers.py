"""Several processes: one writes at a time, readers see a version as a whole, and locks follow no links."""

import multiprocessing
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memgrow.data.disk import TRAINING
from memgrow.errors import ModelError
from memgrow.storage import folder
from memgrow.storage.checkpoint import find_faults
from memgrow.storage.folder import LOCK, VERSIONS, hold
from memgrow.storage.versions import undo
from tests.storage.conftest import answers, load, tree

FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def no_grace(monkeypatch) -> None:
    monkeypatch.setattr(folder, "GRACE_S", 0.05)


def hold_on(path: Path, ready) -> None:
    with hold(path):
        ready.set()
        time.sleep(60)


def test_a_second_writer_is_refused_until_the_first_is_dead(stages, model) -> None:
    ready = FORK.Event()
    holder = FORK.Process(target=hold_on, args=(model, ready))
    holder.start()
    try:
        assert ready.wait(20)
        said: list[str] = []
        with pytest.raises(ModelError, match="is being changed by another process"), hold(model, 0.1, said.append):
            pass
        assert said
        assert answers(load(model)) == answers(stages[3]), "reading needs no lock"
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.join()
    stages[3].save(model)


def test_a_thread_may_hold_a_lock_twice_and_another_may_not(tmp_path) -> None:
    def other() -> None:
        with hold(tmp_path / "m"):
            pass

    refused = pytest.raises(ModelError, match="is being changed")
    with hold(tmp_path / "m"), hold(tmp_path / "m"), ThreadPoolExecutor(1) as thread, refused:
        thread.submit(other).result()
    other()
    assert list(tmp_path.iterdir()) == [], "nothing was written"


@pytest.mark.parametrize("name", [LOCK, VERSIONS, f"{VERSIONS}/0009", TRAINING])
def test_a_writer_follows_no_link(stages, model, tmp_path, name) -> None:
    """Otherwise somebody's model would lead to a folder of photographs, of which years look like versions."""
    (precious := tmp_path / "precious").mkdir()
    if (model / name).is_dir():
        shutil.copytree(model / name, precious, dirs_exist_ok=True)
        shutil.rmtree(model / name)
    (model / name).unlink(missing_ok=True)
    (precious / "2019").mkdir()
    (precious / "2019" / "photo").write_text("mine")
    (model / name).symlink_to(precious)
    before = tree(precious)
    for change in (lambda: stages[3].save(model), lambda: undo(model)):
        with pytest.raises(ModelError, match="symbolic link"):
            change()
    assert tree(precious) == before


def test_a_first_writer_follows_no_link(stages, tmp_path) -> None:
    (tmp_path / "precious" / "0001").mkdir(parents=True)
    (tmp_path / "precious" / "0001" / "photo").write_text("mine")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / VERSIONS).symlink_to(tmp_path / "precious")
    with pytest.raises(ModelError, match="symbolic link"):
        stages[1].save(tmp_path / "m")
    assert tree(tmp_path / "precious") == {"0001/photo": b"mine"}


def save_often(path: Path, learners, count: int, failed) -> None:
    for number in range(count):
        try:
            learners[number % len(learners)].save(path, overwrite=True)
        except BaseException as error:
            failed.put(repr(error))
            raise


def read_often(path: Path, expected: set, until, failed) -> None:
    while not until.is_set():
        try:
            assert tuple(answers(load(path))) in expected
        except BaseException as error:
            failed.put(repr(error))
            raise


def test_readers_and_writers_at_once_see_whole_versions(stages, model) -> None:
    until, failed = FORK.Event(), FORK.Queue()
    expected = {tuple(answers(learner)) for learner in stages[1:]}
    writers = [FORK.Process(target=save_often, args=(model, stages[1:], 12, failed)) for _ in range(3)]
    readers = [FORK.Process(target=read_often, args=(model, expected, until, failed)) for _ in range(3)]
    for process in (*readers, *writers):
        process.start()
    for process in writers:
        process.join(100)
    until.set()
    for process in readers:
        process.join(100)
    assert failed.empty(), failed.get()
    assert not find_faults(model)
