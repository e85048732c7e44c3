"""One process at a time changes a folder; readers get the old version or the new one, and what dead ones left goes."""

import errno
import json
import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from memgrow import folders, locking
from memgrow.errors import ModelError
from memgrow.folder_reader import read_folder
from memgrow.folder_writer import write_folder
from memgrow.locking import Holder, hold

AT_LEAST = 3  # saves or loads of a process, however busy the machine is
FORK = multiprocessing.get_context("fork")  # quick; nothing here is computed by torch


def without_flock(file, operation):
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Nobody here is dying: who is refused is refused at once."""
    monkeypatch.setattr(locking, "DYING_S", 0.0)


@pytest.fixture(params=["flock", "no locks"])
def kind(request, monkeypatch):
    """On a file system with locks, and on one without."""
    if request.param == "no locks":
        monkeypatch.setattr(locking.fcntl, "flock", without_flock)
    return request.param


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock of a folder until it is told to go, or is killed."""
    started = []

    def begin(path):
        ready = FORK.Event()

        def work():
            with hold(path):
                ready.set()
                time.sleep(60)

        process = FORK.Process(target=work)
        process.start()
        started.append(process)
        assert ready.wait(10)
        return process

    yield begin
    for process in started:
        process.kill()
        process.join()


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Two at once


def test_the_second_is_told_who_has_it_and_changes_nothing(kind, other, tmp_path):
    write_folder(tmp_path / "m", {"a": b"1"})
    process = other(tmp_path / "m")
    for way in ("m", "../" + tmp_path.name + "/m"):
        told = rf"m is being changed by process {process.pid} on .* since 2.*wait"
        with pytest.raises(ModelError, match=told), hold(tmp_path / way):
            pytest.fail("two have it")
    assert read_folder(tmp_path / "m") == {"a": b"1"}


def test_a_lock_of_a_process_that_was_killed_blocks_nobody_and_nothing_of_it_stays(kind, other, tmp_path):
    process = other(tmp_path / "m")
    assert len(names(tmp_path)) == 1
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with hold(tmp_path / "m", wait=5):
        pass
    assert names(tmp_path) == []


def test_a_process_that_is_just_dying_is_waited_for(other, tmp_path, monkeypatch):
    monkeypatch.setattr(locking, "DYING_S", 30.0)
    other(tmp_path / "m").kill()
    with hold(tmp_path / "m"):
        pass


def test_who_waits_is_told_for_whom_and_goes_on_when_it_is_free(kind, other, tmp_path):
    process, told = other(tmp_path / "m"), []

    def tell(sentence):
        told.append(sentence)
        process.kill()
        process.join()

    with hold(tmp_path / "m", wait=30, on_wait=tell):
        assert f"process {process.pid} on" in told[0]
    assert len(told) == 1


def test_who_has_it_may_ask_again_and_a_thread_or_child_of_it_may_not(kind, tmp_path):
    with hold(tmp_path / "m"):
        with hold(tmp_path / "m"):
            pass
        found = FORK.Queue()

        def work():
            try:
                with hold(tmp_path / "m"):
                    found.put("has it")
            except ModelError as error:
                found.put(str(error))

        child = FORK.Process(target=work)
        child.start()
        assert f"process {os.getpid()}" in found.get(timeout=10)
        child.join()
    with hold(tmp_path / "m"):
        assert len(names(tmp_path)) == 1
    assert names(tmp_path) == []


def test_without_locks_a_holder_on_another_machine_is_not_taken_for_dead(monkeypatch, tmp_path):
    monkeypatch.setattr(locking.fcntl, "flock", without_flock)
    left = {"pid": 2**22 + 1, "host": "elsewhere", "since": "2020-01-01 00:00:00"}
    (tmp_path / ".m.locked").write_text(json.dumps(left))
    told = r"process 4194305 on elsewhere.*or remove .*\.m\.locked if it is dead"
    with pytest.raises(ModelError, match=told), hold(tmp_path / "m", wait=0.1):
        pytest.fail("two have it")
    (tmp_path / ".m.locked").write_text(json.dumps({**left, "host": Holder.ours().host}))
    with hold(tmp_path / "m", wait=1):
        pass
    assert names(tmp_path) == []


def test_without_locks_a_process_that_died_before_it_signed_blocks_nobody(monkeypatch, tmp_path):
    monkeypatch.setattr(locking.fcntl, "flock", without_flock)
    left = tmp_path / ".m.locked"
    left.touch()
    with pytest.raises(ModelError, match="is being changed by another process"), hold(tmp_path / "m", wait=0.1):
        pytest.fail("it may be just about to sign")
    os.utime(left, (time.time() - 60,) * 2)
    with hold(tmp_path / "m", wait=1):
        assert Holder.read(left) is not None
    assert names(tmp_path) == []


def test_without_locks_nobody_holds_what_he_cannot_sign(monkeypatch, tmp_path):
    monkeypatch.setattr(locking.fcntl, "flock", without_flock)

    def full(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(ModelError, match="No space left on device"), hold(tmp_path / "m"):
            pytest.fail("another process would take it for one that died")
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not tell when a process began")
def test_without_locks_a_number_that_another_process_has_by_now_blocks_nobody(monkeypatch, tmp_path):
    monkeypatch.setattr(locking.fcntl, "flock", without_flock)
    ours = Holder.ours()
    (tmp_path / ".m.locked").write_text(json.dumps(asdict(replace(ours, born="another boot 1"))))
    with hold(tmp_path / "m", wait=1):
        pass
    (tmp_path / ".m.locked").write_text(json.dumps(asdict(ours)))  # another thread's
    with pytest.raises(ModelError, match="is being changed by process"), hold(tmp_path / "m", wait=0.1):
        pytest.fail("two have it")


def test_folders_that_were_made_for_a_lock_go_with_it(tmp_path):
    with hold(tmp_path / "a" / "b" / "m"):
        pass
    assert names(tmp_path) == []


# Writers and readers


def version(number: int) -> dict[str, bytes]:
    return {name: f"{name} {number}".encode() * 2000 for name in "abcd"}


def stress(path, seconds: float, writers: int, readers: int) -> tuple[int, int]:
    """(saves, loads) of processes that do nothing else; every one of them must succeed."""
    until, results = time.monotonic() + seconds, FORK.Queue()

    def write(which: int) -> None:
        saved, wrong = 0, []
        while time.monotonic() < until or (saved < AT_LEAST and not wrong):
            try:
                with hold(path, wait=60):
                    log = json.loads(read_folder(path)["log"]) if path.exists() else []
                    log.append([which, saved])
                    write_folder(path, {"log": json.dumps(log).encode(), **version(len(log))})
                saved += 1
            except Exception as error:
                wrong.append(repr(error))
        results.put((which, saved, wrong))

    def read(which: int) -> None:
        loaded, wrong, last = 0, [], 0
        while time.monotonic() < until or (loaded < AT_LEAST and not wrong):
            try:
                found = read_folder(path)
                length = len(json.loads(found.pop("log")))
                if found != version(length) or length < last:
                    wrong.append(f"{length} after {last}")
                loaded, last = loaded + 1, length
            except Exception as error:
                wrong.append(repr(error))
        results.put((which, loaded, wrong))

    write_folder(path, {"log": b"[]", **version(0)})
    works = [FORK.Process(target=write, args=(n,)) for n in range(writers)]
    works += [FORK.Process(target=read, args=(-1 - n,)) for n in range(readers)]
    for work in works:
        work.start()
    found = [results.get(timeout=60) for _ in works]
    for work in works:
        work.join()
    assert [wrong for *_, wrong in found if wrong] == []
    log = [tuple(entry) for entry in json.loads(read_folder(path)["log"])]
    saves = [(which, number) for which, saved, _ in found if which >= 0 for number in range(saved)]
    assert sorted(log) == sorted(saves)
    assert names(path.parent) == [path.name]
    return len(saves), sum(loaded for which, loaded, _ in found if which < 0)


@pytest.mark.parametrize("way", ["exchange", "two renames", "within"])
def test_every_load_succeeds_and_every_save_is_there(tmp_path, monkeypatch, way):
    rename = folders.rename

    def busy(old, new):
        if tmp_path / "m" in (old, new):
            raise OSError(errno.EBUSY, "Device or resource busy")
        rename(old, new)

    if way != "exchange":
        monkeypatch.setattr(folders, "exchange", lambda a, b: False)
    if way == "within":
        (tmp_path / "m").mkdir()
        monkeypatch.setattr(folders, "rename", busy)
    saves, loads = stress(tmp_path / "m", 0.6, writers=3, readers=2)
    assert saves > 5
    assert loads > 5


@pytest.mark.slow
def test_ten_writers_and_ten_readers(kind, tmp_path):
    saves, loads = stress(tmp_path / "m", 0.8, writers=10, readers=10)
    assert saves > 20
    assert loads > 20


def test_two_who_write_without_asking_leave_the_whole_of_one(tmp_path):
    path = tmp_path / "m"
    until = time.monotonic() + 0.5

    def write(which: int) -> None:
        while time.monotonic() < until:
            write_folder(path, version(which))

    works = [FORK.Process(target=write, args=(n,)) for n in range(2)]
    for work in works:
        work.start()
    for work in works:
        work.join()
    assert [work.exitcode for work in works] == [0, 0]
    assert read_folder(path) in (version(0), version(1))
    assert names(tmp_path) == ["m"]


# What dead processes left


def test_what_a_process_that_was_killed_was_writing_goes_with_the_next_lock(tmp_path):
    write_folder(tmp_path / "m", {"a": b"1"})

    def work():
        with suppress(ZeroDivisionError), folders.atomic_folder(tmp_path / "m") as beside:
            (beside / "half").write_bytes(b"x")
            os.kill(os.getpid(), signal.SIGKILL)

    child = FORK.Process(target=work)
    child.start()
    child.join()
    old = folders.unique_beside(tmp_path / "m", "old").name
    for left in (old, ".m.writing", ".m.adapting.done", ".m.adapting.writing"):
        (tmp_path / left / "deep").mkdir(parents=True)
    (tmp_path / ".m.adapting.lock").touch()
    (tmp_path / ".n.writing").mkdir()  # another model's
    assert len(names(tmp_path)) == 8
    with hold(tmp_path / "m"):
        pass
    assert names(tmp_path) == [".n.writing", "m"]
    assert read_folder(tmp_path / "m") == {"a": b"1"}


def test_what_others_try_while_they_wait_is_left_alone(tmp_path):
    """Else a model could be renamed in earnest onto what had been in the way."""
    path = tmp_path / "m"
    write_folder(path, {"a": b"1"})
    alive = folders.unique_beside(path, "trying")
    dead = alive.with_name(alive.name.replace(str(os.getpid()), str(2**22 + 1)))
    for tried in (alive, dead):
        (tried / "x").mkdir(parents=True)
    with hold(path):
        write_folder(path, {"a": b"2"})
    assert names(tmp_path) == [alive.name, "m"]
    assert (alive / "x").exists()


def test_where_nobody_can_say_whether_a_folder_can_be_replaced_no_lock_is_taken(tmp_path, monkeypatch):
    write_folder(tmp_path / "m", {"a": b"1"})

    def full(old, new):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folders, "rename", full)
        with pytest.raises(ModelError, match="No space left on device"), hold(tmp_path / "m"):
            pytest.fail("it was held")
    assert names(tmp_path) == ["m"]


def test_without_the_lock_only_what_is_known_to_be_dead_goes(tmp_path):
    path = tmp_path / "m"
    alive = folders.unique_beside(path)
    dead = alive.with_name(alive.name.replace(str(os.getpid()), str(2**22 + 1)))
    strange = dead.with_name(dead.name.replace(dead.name.split(".")[-2], "0" * 8))
    for left in (alive, dead, strange):
        left.mkdir()
    with folders.atomic_folder(path):
        assert {left.name for left in (alive, dead, strange) if left.exists()} == {alive.name, strange.name}
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize("within", [False, True])
def test_a_lock_that_a_killed_process_was_taking_over_goes_and_that_of_a_living_one_stays(tmp_path, within):
    child = FORK.Process(target=lambda: None)
    child.start()
    child.join()
    (tmp_path / "m").mkdir()
    place = tmp_path / "m" / ".locked" if within else tmp_path / ".m.locked"
    living = folders.unique_beside(place)
    dead = living.with_name(living.name.replace(str(os.getpid()), str(child.pid)))
    for file in (living, dead):
        file.write_text("{}")
    with hold(tmp_path / "m"):
        assert not dead.exists()
        assert living.exists()
