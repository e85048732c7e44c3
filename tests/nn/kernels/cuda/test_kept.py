"""Compiled kernels are taken from the cache only if they are whole and this user's own; no GPU is needed."""

import os
import stat

import pytest

from memgrow.nn.kernels.cuda import kept, nvrtc


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "memgrow" / "kernels"


def test_what_was_kept_is_found_in_a_folder_that_nobody_else_can_enter(folder):
    assert kept.find("a.cubin") is None
    kept.keep("a.cubin", b"code")
    assert kept.find("a.cubin") == b"code"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["a.cubin"]


@pytest.mark.parametrize(
    "spoil", [lambda c: b"", lambda c: c[:-1], lambda c: c + b"x", lambda c: b"x" + c[1:], lambda c: b"code"]
)
def test_what_is_damaged_counts_as_none_and_is_replaced(folder, spoil):
    kept.keep("a.cubin", b"code")
    (folder / "a.cubin").write_bytes(spoil((folder / "a.cubin").read_bytes()))
    assert kept.find("a.cubin") is None
    kept.keep("a.cubin", b"code")
    assert kept.find("a.cubin") == b"code"


def test_the_code_of_another_kernel_is_not_taken(folder):
    kept.keep("a.cubin", b"code")
    (folder / "a.cubin").rename(folder / "b.cubin")
    assert kept.find("b.cubin") is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")
def test_what_belongs_to_another_user_is_not_taken(folder, monkeypatch):
    kept.keep("a.cubin", b"code")
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert kept.find("a.cubin") is None
    kept.keep("a.cubin", b"other code")
    monkeypatch.undo()


def test_links_are_not_followed(folder, tmp_path):
    kept.keep("a.cubin", b"code")
    (tmp_path / "planted").write_bytes((folder / "a.cubin").read_bytes())
    (folder / "a.cubin").unlink()
    (folder / "a.cubin").symlink_to(tmp_path / "planted")
    assert kept.find("a.cubin") is None
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    kept.keep("b.cubin", b"code")
    assert kept.find("b.cubin") is None
    assert not (tmp_path / "elsewhere" / "b.cubin").exists()


def test_a_folder_that_others_can_enter_is_closed_to_them(folder):
    folder.mkdir(parents=True, mode=0o777)
    folder.chmod(0o777)
    kept.keep("a.cubin", b"code")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_a_home_or_room_it_is_compiled_each_time(monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(nvrtc, "_compile_now", lambda text, words, source: b"new code")
    assert nvrtc._compile("grid.cu", (), "sm_90") == b"new code"
    monkeypatch.setenv("XDG_CACHE_HOME", "~nobody-of-this-name")
    assert nvrtc._compile("grid.cu", (), "sm_90") == b"new code"


def test_a_kernel_is_compiled_once(monkeypatch):
    compiled = []
    monkeypatch.setattr(nvrtc, "_compile_now", lambda *what: compiled.append(what) or b"code")
    assert nvrtc._compile("grid.cu", (), "sm_90") == nvrtc._compile("grid.cu", (), "sm_90") == b"code"
    assert len(compiled) == 1
