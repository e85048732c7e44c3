"""`memgrow data`: fetching, listing and finding corpora, at eighty columns."""

import re
from dataclasses import replace

import pytest

from memgrow.data.corpora import CORPORA
from memgrow.data.corpora.catalogue import Web as Address
from tests.support.archives import Web, checksum_of, multinli_archive, serving


@pytest.fixture(autouse=True)
def shelf(tmp_path, monkeypatch):
    folder = tmp_path / "shelf"
    monkeypatch.setenv("MEMGROW_DATA", str(folder))
    return folder


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A server that has a small MultiNLI."""
    with serving(Web(multinli_archive(tmp_path / "made"))) as web:
        row = replace(CORPORA["multinli"], source=Address(web.url), checksum=checksum_of(web.content))
        monkeypatch.setitem(CORPORA, "multinli", row)
        yield web


@pytest.mark.parametrize("command", ["get", "list", "where"])
def test_every_command_shows_an_example_on_one_line(memgrow, command):
    out = memgrow.done("data", command, "--help")
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(rf"^ Example: memgrow data {command}", out, re.MULTILINE)


def test_the_list_says_what_is_here(memgrow, web):
    def rows():
        out = memgrow.done("data", "list")
        assert max(map(len, out.splitlines())) <= 80
        return {line.split()[0]: line.split()[-1] for line in out.splitlines() if line[2:3].isalpha()}

    missing = dict.fromkeys(CORPORA, "no")
    assert rows() == {"name": "here"} | missing
    memgrow.done("data", "get", "multinli")
    assert rows() == {"name": "here"} | missing | {"multinli": "yes"}


def test_where_prints_a_path_and_nothing_else(memgrow, shelf, web):
    assert memgrow.done("data", "where") == f"{shelf}\n"
    result = memgrow("data", "where", "multinli")
    assert result.stdout == f"{shelf / 'multinli'}\n"
    assert "memgrow data get multinli" in result.stderr
    memgrow.done("data", "get", "multinli")
    assert memgrow("data", "where", "multinli").stderr == ""


def test_a_corpus_is_fetched_once_unless_it_is_wished_again(memgrow, shelf, web):
    assert f"multinli is in {shelf / 'multinli'}." in memgrow.done("data", "get", "multinli")
    assert "--again" in memgrow.done("data", "get", "multinli")
    assert len(web.asked) == 1
    memgrow.done("data", "get", "multinli", "--again")
    assert len(web.asked) == 2


def test_what_goes_wrong_is_one_sentence_and_nothing_half_used(memgrow, shelf, web, tmp_path):
    web.breaks = [1000, 0]
    assert "broke off after" in memgrow.refused("data", "get", "multinli")
    web.content = b"!" * len(web.content)
    assert "SHA-256" in memgrow.refused("data", "get", "multinli")
    assert "is no file" in memgrow.refused("data", "get", "multinli", "--from", tmp_path / "nowhere")
    assert not (shelf / "multinli").exists()
    assert not [path for path in shelf.rglob("*") if path.is_file()]


@pytest.mark.parametrize("command", ["get", "where"])
def test_a_name_that_no_corpus_has_is_told_with_those_that_there_are(memgrow, command):
    assert memgrow.refused("data", command, "tatoeba").endswith(f"there is {', '.join(CORPORA)}: choose among these")


def test_a_data_folder_that_is_a_file_is_told(memgrow, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "file"))
    assert "MEMGROW_DATA" in memgrow.refused("data", "get", "sentiment")
    assert "no" in memgrow.done("data", "list")


def test_who_waits_in_a_log_sees_a_line_now_and_then(memgrow, web, monkeypatch):
    monkeypatch.setattr("memgrow.report.progress_bars.LOG_EVERY_S", 0.0)
    out = memgrow.done("data", "get", "multinli")
    assert re.search(r"^multinli: downloading .* MB, \d+%$", out, re.MULTILINE)
    assert "multinli: unpacking" in out
