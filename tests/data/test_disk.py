"""Files are replaced as a whole."""

import os
import stat
from math import inf, nan

import pytest
import torch
from safetensors import SafetensorError

from memgrow.data.disk import (
    atomic_folder,
    atomic_open,
    atomic_write,
    finite,
    load_tensors,
    open_output,
    read_metadata,
    save_tensors,
    stored_shapes,
)
from memgrow.errors import ModelError, SettingsError
from memgrow.training.progress import ResumeFolder, TrainState


def fail(file) -> None:
    file.write(b"half")
    raise RuntimeError


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path) -> None:
    path = tmp_path / "deep" / "file"
    atomic_write(path, "old")
    path.chmod(0o600)
    with pytest.raises(RuntimeError), atomic_open(path) as file:
        fail(file)
    assert path.read_text() == "old"
    atomic_write(path, b"new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be synced")
def test_a_new_name_is_on_the_disk_when_its_file_is_written(tmp_path, monkeypatch) -> None:
    """After a power cut a folder that was not synced may still have the old name."""
    synced, sync = [], os.fsync

    def listed(number: int) -> None:
        found = os.fstat(number)
        synced.append((found.st_ino, (tmp_path / "file").exists() and (tmp_path / "file").stat().st_ino))
        sync(number)

    monkeypatch.setattr(os, "fsync", listed)
    atomic_write(tmp_path / "file", "new")
    file, folder = (path.stat().st_ino for path in (tmp_path / "file", tmp_path))
    assert synced == [(file, False), (folder, file)]  # the content before it is named, the name afterwards


def test_own_files_replace_a_link_and_named_outputs_follow_it(tmp_path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("mine")
    link.symlink_to(target)
    with open_output(link) as file:
        file.write(b"new")
    assert target.read_text() == "new"
    assert link.is_symlink()
    atomic_write(link, "ours")
    assert target.read_text() == "new"
    assert not link.is_symlink()
    with open_output("/dev/null") as file:
        file.write(b"gone")
    with pytest.raises(SettingsError, match="is a folder"), open_output(tmp_path):
        pass


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path) -> None:
    path = tmp_path / "folder"
    for content in ("old", "new"):
        with atomic_folder(path) as place:
            (place / "file").write_text(content)
    with pytest.raises(RuntimeError), atomic_folder(path) as place, (place / "file").open("wb") as file:
        fail(file)
    assert (path / "file").read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_tensors_that_share_memory_or_lie_apart_are_written(tmp_path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    given = {"one": base, "tied": base, "part": base[1:], "turned": base.t(), "none": torch.empty(0, 3)}
    save_tensors(tmp_path / "x.safetensors", given, {"state": "here"})
    found = load_tensors(tmp_path / "x.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in given.items())
    assert stored_shapes(tmp_path / "x.safetensors") == {name: tuple(tensor.shape) for name, tensor in given.items()}
    assert read_metadata(tmp_path / "x.safetensors") == {"state": "here"}


def test_infinite_numbers_become_null() -> None:
    assert finite({"a": inf, "b": [{"c": nan}, (1.5, -inf)], "d": "F"}) == {
        "a": None,
        "b": [{"c": None}, [1.5, None]],
        "d": "F",
    }


def test_a_file_of_tensors_that_cannot_be_written_is_an_error_of_the_file_system(tmp_path, monkeypatch):
    def full(*_):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("memgrow.data.disk.save_file", full)
    with pytest.raises(OSError, match=r"^No space left on device"):
        save_tensors(tmp_path / "x.safetensors", {})
    resume = ResumeFolder(tmp_path, 0, {}, 0.0)
    with pytest.raises(ModelError, match=r"cannot save the training.*\(No space left.*make room") as told:
        resume.save(TrainState(), {}, torch.device("cpu"))
    assert "SafetensorError" not in str(told.value)
