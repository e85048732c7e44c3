"""A file or a folder is written whole or not at all, and read only if every byte is what was written."""

import errno
import json
import os
import shutil
import stat
import sys
from contextlib import suppress
from math import inf, nan

import pytest
import safetensors.torch
import torch

from memgrow import folder_writer, folders, storage, unwritten_tensors
from memgrow.cli.output import write_json
from memgrow.errors import ModelError, SettingsError
from memgrow.folder_reader import read_folder
from memgrow.folder_writer import write_folder
from memgrow.folders import atomic_folder
from memgrow.storage import (
    StoredFile,
    atomic_open,
    atomic_write,
    finite,
    load_tensors,
    open_output,
)
from memgrow.unwritten_tensors import UnwrittenTensors

INFINITE = {"perplexity": inf, "rows": [{"mean": nan}, (1.5, -inf)], "name": "F"}
WRITTEN = {"perplexity": None, "rows": [{"mean": None}, [1.5, None]], "name": "F"}
FILES = {"a.json": b"{}\n", "b.bin": b"\x00\x01" * 1000}


@pytest.mark.parametrize("content", [b"\x00\xff", "\u00e9\r\n", ""])
def test_a_file_holds_what_was_written_and_nothing_is_left_beside_it(tmp_path, content):
    path = tmp_path / "deep" / "file.json"
    for written in ("before", content):
        assert atomic_write(path, written) == path
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert [path.name for path in path.parent.iterdir()] == ["file.json"]


def test_after_an_error_a_file_is_as_it_was(tmp_path):
    atomic_write(tmp_path / "file", "before")
    with suppress(ZeroDivisionError), atomic_open(tmp_path / "file") as file:
        file.write(b"half")
        file.flush()
        assert (tmp_path / "file").read_text() == "before"
        raise ZeroDivisionError
    assert (tmp_path / "file").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_two_processes_write_at_once_is_the_whole_of_one_of_them(tmp_path, monkeypatch):
    with atomic_open(tmp_path / "file") as ours:
        ours.write(b"ours, and long")
        with monkeypatch.context() as patch:
            patch.setattr(storage.os, "getpid", lambda: -1)
            atomic_write(tmp_path / "file", "theirs")
        assert (tmp_path / "file").read_text() == "theirs"
    assert (tmp_path / "file").read_text() == "ours, and long"


def test_a_link_in_the_place_of_a_file_of_ours_is_not_followed(tmp_path):
    """In a folder that others can write to it may point to anything of the user's."""
    (tmp_path / "dear").write_text("dear")
    (tmp_path / "cache").symlink_to("dear")
    atomic_write(tmp_path / "cache", "new")
    assert (tmp_path / "dear").read_text() == "dear"
    assert not (tmp_path / "cache").is_symlink()


# A file that a user names


def write_output(path, content: bytes) -> None:
    with open_output(path) as file:
        file.write(content)


def test_output_goes_through_links_and_is_whole_or_not_there(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path / "deep" / "file")
    for content in (b"one", b"two"):  # at first there is nothing at the end of the links
        write_output(tmp_path / "first", content)
        assert (tmp_path / "deep" / "file").read_bytes() == content
    with suppress(ZeroDivisionError), open_output(tmp_path / "first") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert (tmp_path / "deep" / "file").read_bytes() == b"two"
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["file"]


@pytest.mark.parametrize("linked", [True, False])
def test_output_to_a_pipe_is_read_at_its_other_end(tmp_path, linked):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_output(tmp_path / ("link" if linked else "pipe"), b"answers")
    assert os.read(reader, 100) == b"answers"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


def test_output_to_a_device_leaves_the_device(tmp_path):
    place = tmp_path / "null"
    try:
        os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(1, 3))  # a second /dev/null
        write_output(place, b"answers")
    except PermissionError:
        pytest.skip("no device can be made, or none be used, here")
    assert stat.S_ISCHR(place.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["null"]


def test_output_to_a_folder_is_refused_with_its_name(tmp_path):
    (tmp_path / "answers.jsonl").mkdir()
    with pytest.raises(SettingsError, match=r"answers.jsonl is a folder: give the name of a file"):
        write_output(tmp_path / "answers.jsonl", b"answers")
    assert [path.name for path in tmp_path.iterdir()] == ["answers.jsonl"]


# A folder


def test_a_folder_is_replaced_by_what_fills_it_or_stays(tmp_path):
    with atomic_folder(tmp_path / "folder") as beside:
        (beside / "one").write_text("1")
    with suppress(ZeroDivisionError), atomic_folder(tmp_path / "folder") as beside:
        (beside / "two").write_text("2")
        raise ZeroDivisionError
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["one"]
    with atomic_folder(tmp_path / "folder") as beside:
        (beside / "two").write_text("2")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["two"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_numbers_that_json_has_no_word_for_become_null():
    assert finite({"a": inf, "b": [{"c": nan}, (1.5, -inf)]}) == {"a": None, "b": [{"c": None}, [1.5, None]]}


def test_what_is_written_is_read(tmp_path):
    write_folder(tmp_path / "deep" / "model", FILES)
    assert read_folder(tmp_path / "deep" / "model") == FILES


def test_writing_again_replaces_all_files_and_leaves_nothing_beside(tmp_path):
    write_folder(tmp_path / "model", FILES)
    write_folder(tmp_path / "model", {"c.json": b"3"})
    assert read_folder(tmp_path / "model") == {"c.json": b"3"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["c.json", "manifest.json"]


def test_without_the_system_call_that_exchanges_names_the_result_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "exchange", lambda a, b: False)
    write_folder(tmp_path / "model", FILES)
    write_folder(tmp_path / "model", {"c.json": b"3"})
    assert read_folder(tmp_path / "model") == {"c.json": b"3"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_full_disk_leaves_the_old_model_and_says_so(tmp_path, monkeypatch):
    write_folder(tmp_path / "model", FILES)

    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder_writer, "write_file", full)
    with pytest.raises(ModelError, match=r"could not write .* \(No space left on device\).*unchanged"):
        write_folder(tmp_path / "model", {"c.json": b"3"})
    assert read_folder(tmp_path / "model") == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_a_killed_writer_left_is_cleared_by_the_next(tmp_path):
    left = tmp_path / ".model.writing"
    left.mkdir()
    (left / "half").write_bytes(b"x")
    write_folder(tmp_path / "model", FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", ["a.json", "b.bin"])
def test_one_changed_byte_is_noticed(tmp_path, name):
    write_folder(tmp_path / "model", FILES)
    data = bytearray((tmp_path / "model" / name).read_bytes())
    data[1] ^= 1
    (tmp_path / "model" / name).write_bytes(data)
    with pytest.raises(ModelError, match=rf"{name} is not what was written"):
        read_folder(tmp_path / "model")


def test_a_half_copied_folder_is_noticed(tmp_path):
    write_folder(tmp_path / "model", FILES)
    (tmp_path / "model" / "b.bin").unlink()
    with pytest.raises(ModelError, match=r"b.bin is missing.*copy it again"):
        read_folder(tmp_path / "model")
    (tmp_path / "model" / "manifest.json").unlink()
    with pytest.raises(ModelError, match=r"no manifest.json.*copied in part"):
        read_folder(tmp_path / "model")


def test_a_newer_format_asks_for_an_update(tmp_path):
    write_folder(tmp_path / "model", FILES, version=2)
    assert read_folder(tmp_path / "model", newest=2) == FILES
    with pytest.raises(ModelError, match=r"newer memgrow \(format 2; .*update"):
        read_folder(tmp_path / "model")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": "x"}', '{"format": 1}'])
def test_a_damaged_manifest_is_a_sentence(tmp_path, text):
    write_folder(tmp_path / "model", FILES)
    (tmp_path / "model" / "manifest.json").write_text(text)
    with pytest.raises(ModelError, match=r"manifest.json is damaged"):
        read_folder(tmp_path / "model")


def test_a_name_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ModelError, match="there is no model at"):
        read_folder(tmp_path / "nothing")


def test_a_folder_that_is_something_else_is_never_overwritten(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one").write_text("dear")
    (tmp_path / "file").write_text("dear")
    for name in ("photos", "file"):
        with pytest.raises(ModelError, match="is not a memgrow model"):
            write_folder(tmp_path / name, FILES)
    assert (tmp_path / "photos" / "one").read_text() == "dear"
    assert (tmp_path / "file").read_text() == "dear"


def bits(tensor: torch.Tensor) -> bytes:
    """By the library itself, which ours is held against."""
    return safetensors.torch.save({"t": tensor})


def test_tensors_come_back_to_the_bit(tmp_path):
    tensors = {"x": torch.randn(3, 4).t(), "empty": torch.empty(0, 5), "bytes": torch.get_rng_state()}
    write_folder(tmp_path / "m", {"t": UnwrittenTensors.of(tensors)})
    back = load_tensors(read_folder(tmp_path / "m"), "t")
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor)
    assert load_tensors({}, "t") == {}
    with pytest.raises(ModelError, match="does not hold tensors"):
        load_tensors({"t": b"nonsense"}, "t")


@pytest.mark.parametrize("chunk", [8, 1 << 24])
def test_tensors_that_are_written_piece_by_piece_are_the_same_file(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(unwritten_tensors, "CHUNK", chunk)
    every = {f"of {kind}": torch.arange(5).to(kind) for kind in unwritten_tensors.KINDS}
    every |= {"turned": torch.randn(3, 4).t(), "empty": torch.empty(0, 5), "ä": torch.tensor(-0.0), "b": torch.ones(2)}
    for tensors in (every, {}):
        unwritten = UnwrittenTensors.of(tensors)
        write_folder(tmp_path / "m", {"t.safetensors": unwritten})
        found = read_folder(tmp_path / "m")["t.safetensors"]  # which its checksum fits
        assert unwritten.size == len(found)
        back = safetensors.torch.load(found)
        twin = safetensors.torch.load(safetensors.torch.save({n: t.contiguous() for n, t in tensors.items()}))
        assert back.keys() == twin.keys()
        assert all(bits(back[name]) == bits(twin[name]) for name in twin)


def test_what_a_user_put_into_the_folder_stays_there(tmp_path):
    write_folder(tmp_path / "model", FILES)
    (tmp_path / "model" / "NOTES.txt").write_text("mine")
    (tmp_path / "model" / "pictures").mkdir()
    (tmp_path / "model" / "pictures" / "one").write_text("mine")
    write_folder(tmp_path / "model", {"a.json": b"2"})
    assert read_folder(tmp_path / "model") == {"a.json": b"2"}
    assert (tmp_path / "model" / "NOTES.txt").read_text() == "mine"
    assert (tmp_path / "model" / "pictures" / "one").read_text() == "mine"
    assert not (tmp_path / "model" / "b.bin").exists()


def test_links_that_a_user_put_into_the_folder_stay_links(tmp_path):
    (tmp_path / "data").mkdir()
    links = {"data": "../data", "gone": "nowhere", "pictures/gone": "nowhere", "notes": "a.json"}
    write_folder(tmp_path / "model", FILES)
    (tmp_path / "model" / "pictures").mkdir()
    for name, target in links.items():
        (tmp_path / "model" / name).symlink_to(target)
    write_folder(tmp_path / "model", {"a.json": b"2"})
    assert read_folder(tmp_path / "model") == {"a.json": b"2"}
    assert {name: str((tmp_path / "model" / name).readlink()) for name in links} == links


def test_a_link_goes_on_pointing_to_the_model(tmp_path):
    write_folder(tmp_path / "model-1", FILES)
    (tmp_path / "current").symlink_to("model-1")
    write_folder(tmp_path / "current", {"a.json": b"2"})
    assert (tmp_path / "current").is_symlink()
    assert read_folder(tmp_path / "model-1") == {"a.json": b"2"}


def test_without_exchange_a_rename_that_fails_or_a_kill_leaves_the_old_model(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "exchange", lambda a, b: False)
    write_folder(tmp_path / "model", FILES)
    rename = folders.rename

    def refuse(old, new):
        if old.name.endswith(".writing"):
            raise OSError(errno.EACCES, "Permission denied")
        rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(folders, "rename", refuse)
        with pytest.raises(ModelError, match="unchanged"):
            write_folder(tmp_path / "model", {"c.json": b"3"})
    assert read_folder(tmp_path / "model") == FILES
    for old in (
        folders.unique_beside(tmp_path / "model", "old").name,
        ".model.old",
    ):  # an earlier memgrow's is the second
        (tmp_path / "model").rename(tmp_path / old)  # killed between the two renames
        assert read_folder(tmp_path / "model") == FILES
        write_folder(tmp_path / "model", FILES)
        assert read_folder(tmp_path / "model") == FILES
        assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", [".model.old", ".model.done"])
def test_a_folder_of_the_users_that_is_called_like_an_old_one_stays(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "one").write_text("dear")
    for number in (b"1", b"2"):  # where there is no model yet, and where there is one
        write_folder(tmp_path / "model", {"n": number})
        assert read_folder(tmp_path / "model") == {"n": number}
        assert (tmp_path / name / "one").read_text() == "dear"


def test_a_copy_of_the_model_that_is_called_like_an_old_one_stays_while_there_is_the_model(tmp_path):
    write_folder(tmp_path / "model", FILES)
    shutil.copytree(tmp_path / "model", tmp_path / ".model.old")
    write_folder(tmp_path / "model", {"n": b"1"})
    assert read_folder(tmp_path / "model") == {"n": b"1"}
    assert read_folder(tmp_path / ".model.old") == FILES


def test_of_two_old_folders_the_later_one_gets_its_name_back(tmp_path):
    """The earlier one could not be removed when it was replaced."""
    for number in (b"1", b"2"):
        write_folder(tmp_path / "model", {"n": number})
        (tmp_path / "model").rename(folders.unique_beside(tmp_path / "model", "old"))
        if number == b"1":
            (left,) = tmp_path.iterdir()
            left.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rename(left)
    assert read_folder(tmp_path / "model") == {"n": b"2"}
    write_folder(tmp_path / "model", {"n": b"3"})
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


# Large files that several folders share


@pytest.fixture
def first(tmp_path) -> StoredFile:
    """A large file in the folder of a first version."""
    tensors = {"x": torch.randn(5, 3), "zero": torch.tensor([-0.0, 0.0])}
    write_folder(tmp_path / "first", {"a.json": b"1", "large": UnwrittenTensors.of(tensors)})
    stored = read_folder(tmp_path / "first", large={"large"})["large"]
    assert isinstance(stored, StoredFile)
    return stored


def test_a_large_file_is_checked_but_stays_on_the_disk(first, tmp_path):
    assert read_folder(tmp_path / "first") == {"a.json": b"1", "large": first.path.read_bytes()}
    whole, mapped = (load_tensors(read_folder(tmp_path / "first", large=large), "large") for large in ((), {"large"}))
    assert whole.keys() == mapped.keys()
    assert all(bits(whole[name]) == bits(mapped[name]) for name in whole)


def test_a_second_folder_has_the_same_file_and_outlives_the_first(first, tmp_path):
    content = first.path.read_bytes()
    write_folder(tmp_path / "second", {"a.json": b"2", "large": first})
    assert (tmp_path / "second" / "large").samefile(first.path)
    shutil.rmtree(tmp_path / "first")
    assert read_folder(tmp_path / "second") == {"a.json": b"2", "large": content}


def test_a_folder_that_is_replaced_hands_its_large_file_on(first, tmp_path, monkeypatch):
    content, number = first.path.read_bytes(), first.path.stat().st_ino
    for swap in (folders.exchange, lambda a, b: False):
        monkeypatch.setattr(folders, "exchange", swap)
        write_folder(tmp_path / "first", {"a.json": b"2", "large": StoredFile.open(first.path)})
        assert read_folder(tmp_path / "first") == {"a.json": b"2", "large": content}
        assert first.path.stat().st_ino == number
        assert first.path.stat().st_nlink == 1
    write_folder(tmp_path / "first", {"a.json": b"3"})
    assert not first.path.exists()


def no_link(source, target):
    raise OSError(errno.EXDEV, "Invalid cross-device link")


def test_where_no_link_can_be_made_the_file_is_copied(first, tmp_path, monkeypatch):
    first.path.chmod(0o444)
    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "link", no_link)
        write_folder(tmp_path / "copied", {"large": first})
    write_folder(tmp_path / "linked", {"large": first})
    for name in ("copied", "linked"):
        assert (tmp_path / name / "large").samefile(first.path) == (name == "linked")
        assert read_folder(tmp_path / name) == {"large": first.path.read_bytes()}
        write_folder(tmp_path / name, {"a.json": b"2"})
    assert first.path.exists()


def test_a_disk_that_is_full_while_a_large_file_is_copied_leaves_the_old_folder(first, tmp_path, monkeypatch):
    def full(source, target):
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    write_folder(tmp_path / "model", FILES)
    monkeypatch.setattr(storage.os, "link", no_link)
    monkeypatch.setattr(storage.shutil, "copyfile", full)
    with pytest.raises(ModelError, match=r"could not write .* \(No space left on device\).*unchanged"):
        write_folder(tmp_path / "model", {"large": first})
    assert read_folder(tmp_path / "model") == FILES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "model"]


def test_a_writer_killed_after_it_made_a_link_harms_nobody(first, tmp_path):
    content = first.path.read_bytes()
    left = tmp_path / ".first.writing"
    left.mkdir()
    first.link(left / "large")
    (left / "manifest.json").write_text("{")
    assert read_folder(tmp_path / "first")["large"] == content
    write_folder(tmp_path / "first", {"large": StoredFile.open(first.path)})
    assert read_folder(tmp_path / "first") == {"large": content}
    assert first.path.stat().st_nlink == 1


@pytest.mark.parametrize("links", [True, False])
def test_a_large_file_that_another_one_has_replaced_is_neither_read_nor_linked(first, tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(storage.os, "link", no_link)
    other = UnwrittenTensors.of({"x": torch.randn(5, 3), "zero": torch.tensor([-0.0, 0.0])})
    atomic_write(first.path, b"".join(other.chunks()))
    with pytest.raises(ModelError, match="large was replaced while it was read: try again"):
        first.tensors()
    with pytest.raises(ModelError, match="large was replaced while it was read: try again"):
        write_folder(tmp_path / "second", {"large": first})
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    first.path.unlink()
    with pytest.raises(ModelError, match="was replaced"):
        first.tensors()
    with pytest.raises(ModelError, match=r"could not write .*No such file"):
        write_folder(tmp_path / "second", {"large": first})


def test_a_damaged_or_missing_large_file_is_noticed(first, tmp_path):
    content = bytearray(first.path.read_bytes())
    content[-1] ^= 1
    first.path.write_bytes(content)
    with pytest.raises(ModelError, match="large is not what was written"):
        read_folder(tmp_path / "first", large={"large"})
    first.path.unlink()
    with pytest.raises(ModelError, match=r"large is missing.*copy it again"):
        read_folder(tmp_path / "first", large={"large"})


# JSON that anybody can read


def strictly(text: str) -> object:
    return json.loads(text, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))


def test_a_command_prints_no_infinite_number(capfdbinary):
    write_json(INFINITE)
    sys.stdout.flush()
    assert strictly(capfdbinary.readouterr().out.decode()) == WRITTEN
