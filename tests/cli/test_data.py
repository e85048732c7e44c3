"""`memgrow data`: fetching, listing and finding corpora, at eighty columns."""

import re

import pytest

from memgrow.data.corpora import CORPORA


@pytest.fixture(autouse=True)
def shelf(tmp_path, monkeypatch):
    folder = tmp_path / "shelf"
    monkeypatch.setenv("MEMGROW_DATA", str(folder))
    return folder


@pytest.mark.parametrize("command", ["get", "list", "where"])
def test_every_command_shows_an_example_on_one_line(memgrow, command):
    out = memgrow.done("data", command, "--help")
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(rf"^ Example: memgrow data {command}", out, re.MULTILINE)


@pytest.mark.parametrize("command", ["get", "where"])
def test_a_name_that_no_corpus_has_is_told_with_those_that_there_are(memgrow, command):
    assert memgrow.refused("data", command, "tatoeba").endswith(f"choose among {', '.join(CORPORA)}")


def test_a_data_folder_that_is_a_file_is_told(memgrow, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "file"))
    assert "MEMGROW_DATA" in memgrow.refused("data", "get", "sentiment")
    assert "no" in memgrow.done("data", "list")
