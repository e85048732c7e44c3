"""Several processes: one writes at a time, readers see a version as a whole, and locks follow no links."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memgrow.errors import ModelError
from memgrow.storage import folder
from memgrow.storage.checkpoint import find_faults
from memgrow.storage.folder import LOCK, hold
from tests.storage.conftest import answers, load

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


def test_the_lock_follows_no_link(stages, model, tmp_path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (model / LOCK).unlink()
    (model / LOCK).symlink_to(precious)
    with pytest.raises(ModelError, match="symbolic link"):
        stages[3].save(model)
    assert precious.read_text() == "mine"


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
