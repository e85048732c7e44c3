"""Folders that cannot be replaced, or not be written at all, and who may read what is written."""

import ctypes
import errno
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import stat
import sys
import traceback

import pytest

from memgrow import folder_writer, folders, locking
from memgrow.errors import ModelError
from memgrow.folder_reader import read_folder
from memgrow.folder_writer import write_folder
from memgrow.folders import replaceable
from memgrow.learner import Learner
from memgrow.locking import hold
from memgrow.manifest import Manifest, stored_at
from memgrow.storage import StoredFile, atomic_open, atomic_write
from tests.support.breaking import Plug, PulledPlug

FORK = multiprocessing.get_context("fork")
FILES = {"a.json": b"{}\n", "b.bin": b"\x00\x01" * 1000}
EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.chmod", "ctypes.call_function"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CANNOT = 77  # exit code of a child that may not mount anything


@pytest.fixture(params=[errno.EBUSY, errno.EXDEV], ids=["a mount point", "in an image's layer"])
def fixed(request, tmp_path, monkeypatch):
    """The place of a folder that can get no other name, nor give its own away."""
    path, rename = tmp_path / "m", folders.rename

    def refuse(old, new):
        if path in (old, new):
            raise OSError(request.param, os.strerror(request.param))
        rename(old, new)

    path.mkdir()
    monkeypatch.setattr(folders, "rename", refuse)
    exchange = folders.exchange
    monkeypatch.setattr(folders, "exchange", lambda a, b: path not in (a, b) and exchange(a, b))
    return path


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_that_cannot_be_replaced_gets_versions_within(fixed):
    for number in range(3):
        write_folder(fixed, {**FILES, "n": str(number).encode()})
        assert read_folder(fixed) == {**FILES, "n": str(number).encode()}
        version = json.loads((fixed / "manifest.json").read_text())["folder"]
        assert names(fixed) == ["manifest.json", version]
        assert names(fixed.parent) == ["m"]
        if number == 0:
            (fixed / "NOTES.txt").write_text("mine")
            assert names(fixed) == ["NOTES.txt", *sorted(["manifest.json", version])]
            (fixed / "NOTES.txt").unlink()


def test_a_model_that_was_written_as_usual_goes_on_in_a_place_that_cannot_be_replaced(fixed, tmp_path):
    write_folder(tmp_path / "usual", FILES)
    (tmp_path / "usual" / "NOTES.txt").write_text("mine")
    shutil.copytree(tmp_path / "usual", fixed, dirs_exist_ok=True)
    write_folder(fixed, {"a.json": b"2", "b.bin": b"3"})
    assert read_folder(fixed) == {"a.json": b"2", "b.bin": b"3"}
    version = json.loads((fixed / "manifest.json").read_text())["folder"]
    assert names(fixed) == ["NOTES.txt", "manifest.json", version]
    shutil.copytree(fixed, tmp_path / "copy")
    assert read_folder(tmp_path / "copy") == {"a.json": b"2", "b.bin": b"3"}
    write_folder(tmp_path / "copy", {"a.json": b"4"})
    assert names(tmp_path / "copy") == ["NOTES.txt", "a.json", "manifest.json"]


@pytest.mark.parametrize("survives", range(3))
def test_within_such_a_folder_a_writer_that_is_stopped_leaves_the_old_version(fixed, monkeypatch, survives):
    write_folder(fixed, FILES)
    before, write, written = names(fixed), folder_writer.write_file, []

    def full(path, data):
        if len(written) == survives:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(folder_writer, "write_file", full)
        if survives == 2:  # all files are there, and only the manifest is not
            patch.setattr(folder_writer, "atomic_open", lambda path: full(path, b""))
        with pytest.raises(ModelError, match=r"\(No space left on device\).*unchanged"):
            write_folder(fixed, {"a.json": b"2", "b.bin": b"3"})
    assert read_folder(fixed) == FILES
    assert names(fixed) == before
    (fixed / "version-00000000").mkdir()  # of one that was killed
    (fixed / "a.json").write_bytes(b"{}")  # which was to be removed
    write_folder(fixed, {"a.json": b"2"})
    assert read_folder(fixed) == {"a.json": b"2"}
    assert len(names(fixed)) == 2


def test_within_such_a_folder_a_large_file_is_handed_on(fixed):
    large = b"\x02" * 1000
    write_folder(fixed, {"a": b"1", "large": large})
    number = stored_at(fixed, "large").stat().st_ino
    write_folder(fixed, {"a": b"2", "large": StoredFile.open(stored_at(fixed, "large"))})
    assert read_folder(fixed) == {"a": b"2", "large": large}
    assert (stored_at(fixed, "large").stat().st_ino, stored_at(fixed, "large").stat().st_nlink) == (number, 1)


@pytest.mark.parametrize("name", ["..", "/etc", "version-1", "version-0000000/", 7])
def test_a_version_is_never_sought_elsewhere(tmp_path, name):
    write_folder(tmp_path / "m", FILES)
    told = json.loads((tmp_path / "m" / "manifest.json").read_text())
    (tmp_path / "m" / "manifest.json").write_text(json.dumps({**told, "folder": name}))
    with pytest.raises(ModelError, match=r"manifest.json is damaged"):
        read_folder(tmp_path / "m")


def test_a_model_learns_domain_after_domain_there_and_resumes(fixed, tiny, short, stream):
    def begin() -> Learner:
        return Learner.create("F+M+V", model=tiny, training=short, device="cpu")

    with pytest.raises(PulledPlug):
        begin().adapt(stream[0], folder=fixed, save_every=0, progress=Plug(1))
    assert names(fixed) == ["adapting"]
    assert names(fixed.parent) == ["m"]
    begin().adapt(stream[0], folder=fixed)
    for domain in stream[1:]:
        Learner.load(fixed, device="cpu").adapt(domain, folder=fixed)
        assert len(names(fixed)) == 3, "the manifest, the newest version, and the one before it"
        assert names(fixed.parent) == ["m"]
    learner = begin()
    learner.learn(stream)
    examples = list(stream[1].test)
    assert Learner.load(fixed, device="cpu").predict(examples) == learner.predict(examples)


def test_whether_a_folder_can_be_replaced_is_found_out_without_touching_it(tmp_path):
    write_folder(tmp_path / "m", FILES)
    before = (tmp_path / "m").stat()
    assert replaceable(tmp_path / "m")
    assert replaceable(tmp_path / "nothing")
    assert (tmp_path / "m").stat() == before
    assert names(tmp_path) == ["m"]
    assert read_folder(tmp_path / "m") == FILES


@pytest.mark.parametrize(
    "way", ["exchange", *(pytest.param(way, marks=pytest.mark.extras) for way in ("two renames", "within"))]
)
def test_a_writer_killed_at_any_file_operation_harms_nobody(tmp_path, monkeypatch, way):
    """The same save is killed before its first call of the system, its second, and so on until it succeeds."""
    path = tmp_path / "m"
    if way != "exchange":
        monkeypatch.setattr(folders, "exchange", lambda a, b: False)
    write_folder(path, FILES)
    (path / "NOTES.txt").write_text("mine")
    new = {**FILES, "n": b"1"}
    replaces = way != "within"
    for module in (folders, folder_writer, locking):
        if hasattr(module, "replaceable"):
            monkeypatch.setattr(module, "replaceable", lambda path: replaces)
    number, status = 0, -signal.SIGKILL
    while status == -signal.SIGKILL:
        status = killed_at(number, lambda: write_folder(path, new), reads=way == "exchange")
        assert read_folder(path) in (FILES, new)
        number += 1
    assert status == 0
    assert 10 < number < 200
    with hold(path):
        pass
    assert read_folder(path) == new
    assert (path / "NOTES.txt").read_text() == "mine"
    assert names(tmp_path) == ["m"]
    assert len(names(path)) == (5 if replaces else 3)


def killed_at(number: int, work, reads: bool = True) -> int:
    """Do `work` in a child that kills itself before the call of that number that changes or opens a file.

    Without `reads`, what is only opened to be read does not count: the state is that before the next change.
    """

    def child() -> None:
        calls = itertools.count()

        def counts(event, arguments) -> bool:
            return event in EVENTS and (reads or event != "open" or bool(arguments[2] & WRITING))

        def watch(event, arguments):
            if counts(event, arguments) and next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)  # it cannot be removed, but the child ends
        work()
        os._exit(0)

    process = FORK.Process(target=child)
    process.start()
    process.join()
    return process.exitcode or 0


# Real mounts, in a child with a name space of its own


def mounted(work) -> None:
    """Do `work` in a child process that may mount; it is given `mount(source, target, kind, flags, data)`."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source, target, kind=None, flags=0, data=None) -> None:
        words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
        if libc.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()) != 0:
            os._exit(CANNOT)

    def child() -> None:
        new_mounts, private, recursive = 0x20000, 1 << 18, 1 << 14
        try:
            if libc.unshare(new_mounts) != 0:
                os._exit(CANNOT)
            mount("none", "/", None, private | recursive)
            work(mount)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    process = FORK.Process(target=child)
    process.start()
    process.join()
    if process.exitcode == CANNOT:
        pytest.skip("nothing can be mounted here")
    assert process.exitcode == 0


BIND, REMOUNT, READ_ONLY = 1 << 12, 1 << 5, 1
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts are Linux's")


@linux
@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_a_volume_can_be_adapted(tmp_path, kind):
    def work(mount):
        (tmp_path / "m").mkdir()
        mount(*(("x", tmp_path / "m", "tmpfs") if kind == "tmpfs" else (tmp_path / "m", tmp_path / "m", None, BIND)))
        assert not replaceable(tmp_path / "m")
        for number in (b"1", b"2"):
            with hold(tmp_path / "m"):
                assert (tmp_path / "m" / ".lock").exists()
                write_folder(tmp_path / "m", {**FILES, "n": number})
            assert read_folder(tmp_path / "m") == {**FILES, "n": number}
            assert len(names(tmp_path / "m")) == 2
        write_folder(tmp_path / "m", FILES, earlier={2: Manifest.of(tmp_path / "m")})
        assert read_folder(tmp_path / "m", number=2) == {**FILES, "n": b"2"}
        assert len(names(tmp_path / "m")) == 3
        assert names(tmp_path) == ["m"]

    mounted(work)


@linux
def test_a_model_in_an_images_layer_can_be_adapted(tmp_path):
    def work(mount):
        mount("x", tmp_path, "tmpfs")
        lower, upper, around, top = (tmp_path / name for name in ("lower", "upper", "work", "top"))
        for folder in (lower, upper, around, top):
            folder.mkdir()
        write_folder(lower / "m", FILES)
        mount("overlay", top, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={around}")
        assert not replaceable(top / "m")
        for number in (1, 2):
            earlier = {**Manifest.of(top / "m").earlier, number: Manifest.of(top / "m")}
            write_folder(top / "m", {**FILES, "n": b"%d" % number}, earlier=earlier)
            assert read_folder(top / "m") == {**FILES, "n": b"%d" % number}
            assert read_folder(top / "m", number=1) == FILES, "of the lower layer"
            assert len(names(top / "m")) == 2 + number
        assert names(top) == ["m"]

    mounted(work)


@linux
@pytest.mark.parametrize("there", [True, False], ids=["a model", "no model yet"])
def test_a_read_only_place_is_a_sentence_at_once_and_can_be_read(tmp_path, there):
    def work(mount):
        path = tmp_path / "place" / "m"
        path.parent.mkdir()
        if there:
            write_folder(path, FILES)
        mount(path.parent, path.parent, None, BIND)
        mount(None, path.parent, None, BIND | REMOUNT | READ_ONLY)
        with pytest.raises(ModelError, match=r"is read-only: allow|nothing can be written at .*Read-only"), hold(path):
            os._exit(1)
        if there:
            assert read_folder(path) == FILES
        assert names(tmp_path) == ["place"]
        assert names(path.parent) == ["m"] * there

    mounted(work)


@linux
def test_a_model_below_a_read_only_folder_is_written_within(tmp_path):
    def work(mount):
        path = tmp_path / "place" / "m"
        write_folder(path, FILES)
        mount(path, path, None, BIND)
        mount(path.parent, path.parent, None, BIND | 1 << 14)
        mount(None, path.parent, None, BIND | REMOUNT | READ_ONLY)
        write_folder(path, {"a": b"2"})
        assert read_folder(path) == {"a": b"2"}

    mounted(work)


def test_a_model_that_is_read_only_is_refused_before_the_work_begins(tmp_path, monkeypatch):
    write_folder(tmp_path / "m", FILES)
    (tmp_path / "m").chmod(0o555)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # as it is for all but root
    with pytest.raises(ModelError, match=r"m is read-only: allow writing to it \(chmod u\+w\)"), hold(tmp_path / "m"):
        pytest.fail("it was held")
    assert names(tmp_path) == ["m"]


# Who may read


def modes(folder) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


@pytest.fixture
def umask():
    old = os.umask(0o022)
    yield os.umask
    os.umask(old)


def test_files_follow_the_umask(tmp_path, umask):
    write_folder(tmp_path / "m", FILES)
    assert modes(tmp_path / "m") == {"m": 0o755, "a.json": 0o644, "b.bin": 0o644, "manifest.json": 0o644}
    umask(0o077)
    write_folder(tmp_path / "m", FILES)
    assert modes(tmp_path / "m") == {"m": 0o700, "a.json": 0o600, "b.bin": 0o600, "manifest.json": 0o600}


def test_what_was_closed_to_others_stays_so(tmp_path, umask):
    write_folder(tmp_path / "m", FILES)
    for path in (tmp_path / "m").iterdir():
        path.chmod(0o640)
    (tmp_path / "m").chmod(0o750)
    write_folder(tmp_path / "m", {**FILES, "new": b""})
    write_folder(tmp_path / "m.adapting", FILES, like=tmp_path / "m")
    for folder in ("m", "m.adapting"):
        found = modes(tmp_path / folder)
        assert found.pop(folder) == 0o750
        assert set(found.values()) == {0o640}


def test_a_single_file_that_was_closed_to_others_stays_so_at_every_moment(tmp_path, umask):
    path = tmp_path / "compare.json"
    for closed in (0o600, 0o440):
        path.touch()
        path.chmod(closed)
        with atomic_open(path) as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == closed
        assert stat.S_IMODE(path.stat().st_mode) == closed
    umask(0o077)
    path.chmod(0o644)
    atomic_write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_within_a_folder_that_cannot_be_replaced_as_well(fixed, umask):
    write_folder(fixed, FILES)
    for path in fixed.rglob("*.*"):
        path.chmod(0o600)
    fixed.chmod(0o700)
    write_folder(fixed, {**FILES, "new": b""})
    found = modes(fixed)
    assert {mode for name, mode in found.items() if not name.startswith(("m", "version"))} == {0o600}
    assert found["manifest.json"] == 0o600
    assert {mode for name, mode in found.items() if name.startswith("version")} == {0o700}
