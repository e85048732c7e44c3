"""The store: what was put in comes back, damage is told, and a bundle holds all of it."""

import gzip
import multiprocessing

import pytest

from memgrow.errors import DataError, SettingsError
from memgrow.experiments.run import Record
from memgrow.experiments.store import BUNDLE, Store
from memgrow.history import Stage
from memgrow.methods import Grew


def record(key: str, seconds: float = 1.0) -> Record:
    stage = Stage(("bücher",), "F", Grew(), 100, 48, 2, 1, 0.5, seconds, "print")
    return Record(key, stage, {"bücher": (True, False)}, {"bücher": (False,) * 9}, {"method": "F"}, {"bücher": "x"})


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "runs")


def test_looking_into_a_store_makes_nothing(store):
    assert store.get("a") is None
    assert not store.folder.exists()


def test_what_was_put_comes_back_and_the_newest_counts(store):
    store.put(record("a", 1.0))
    store.put(record("b"))
    store.put(record("a", 2.0))
    assert store.get("a") == record("a", 2.0)
    assert Store(store.folder).get("b") == record("b")


def test_a_bundle_holds_everything_and_later_records_come_before_it(store):
    for key in "abc":
        store.put(record(key))
    path = store.bundle()
    assert [one.name for one in store.folder.rglob("*") if one.is_file()] == [BUNDLE]
    again = Store(store.folder)
    assert [again.get(key) for key in "abcd"] == [record("a"), record("b"), record("c"), None]
    again.put(record("b", 9.0))
    assert again.get("b") == record("b", 9.0)
    assert again.bundle() == path
    assert Store(store.folder).get("b") == record("b", 9.0)
    assert Store(store.folder).get("a") == record("a")


def test_a_bundle_is_the_same_bytes_in_whatever_order_records_came(tmp_path):
    first, second = Store(tmp_path / "1"), Store(tmp_path / "2")
    for key in "abc":
        first.put(record(key))
    second.put(record("c"))
    second.bundle()
    for key in "ba":
        second.put(record(key))
    assert first.bundle().read_bytes() == second.bundle().read_bytes()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"key": "a"}', b"\xff\xfe"])
def test_a_damaged_record_counts_as_none_and_is_told(store, damage):
    store.put(record("a"))
    (path,) = (store.folder / "records").iterdir()
    path.write_bytes(damage)
    assert store.get("a") is None
    assert str(path) in store.notices[0]


@pytest.mark.parametrize("cut", [0, 30])
def test_a_damaged_bundle_is_an_error_that_names_it(store, cut):
    store.put(record("a"))
    path = store.bundle()
    path.write_bytes(path.read_bytes()[:cut] or b"no gzip")
    with pytest.raises(DataError, match=BUNDLE):
        Store(store.folder).get("a")


def test_nothing_half_written_is_ever_read(store, monkeypatch):
    store.put(record("a", 1.0))
    monkeypatch.setattr("memgrow.storage.os.fsync", lambda _: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        store.put(record("a", 2.0))
    assert store.get("a") == record("a", 1.0)


def hold(folder, taken, over):
    with Store(folder).at_work():
        taken.set()
        over.wait(20)


def test_two_processes_do_not_work_in_one_store(store):
    context = multiprocessing.get_context("fork")
    taken, over = context.Event(), context.Event()
    other = context.Process(target=hold, args=(store.folder, taken, over))
    other.start()
    try:
        assert taken.wait(20)
        with pytest.raises(SettingsError, match="another memgrow is at work"), store.at_work():
            pass
    finally:
        over.set()
        other.join()
    with store.at_work():
        pass


def test_a_record_that_is_nested_beyond_all_depth_is_told(store):
    store.put(record("a"))
    (store.folder / "records" / "a.json").write_text("[" * 200_000)
    assert store.get("a") is None
    assert "is damaged and not used" in store.notices[0]
    with gzip.open(store.folder / BUNDLE, "wb") as file:
        file.write(b'{"a":' * 200_000)
    with pytest.raises(DataError, match="is damaged"):
        Store(store.folder).get("b")
