"""A stream is found by a corpus's name, a folder or files."""

from pathlib import Path

import pytest

from memgrow.data import Columns, load_stream
from memgrow.data.corpora import CORPORA, data_folder, find_corpus, open_corpus
from memgrow.data.corpora.sentiment import FILES
from memgrow.errors import DataError


@pytest.fixture(autouse=True)
def shelf(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


def refusal(source, kind=DataError, **options):
    with pytest.raises(kind) as caught:
        open_corpus(source, **options)
    return str(caught.value)


def test_the_data_folder_is_the_one_that_is_named_or_else_a_cache(monkeypatch, shelf):
    assert data_folder() == shelf
    monkeypatch.delenv("MEMGROW_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert data_folder() == Path("/caches/memgrow/data")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert data_folder() == Path("/home/somebody/.cache/memgrow/data")


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_that_was_not_fetched_says_how_to_fetch_it(name):
    assert refusal(name).endswith(f"run: memgrow data get {name}")


def test_a_file_called_like_a_corpus_is_reached_by_its_path(write_rows, monkeypatch, tmp_path):
    rows = [{"text": f"text {i}", "label": "xy"[i % 2]} for i in range(30)]
    write_rows("sentiment/a.jsonl", rows)
    monkeypatch.chdir(tmp_path)
    assert "memgrow data get" in refusal("sentiment")
    assert open_corpus("./sentiment").stream.names == ("a",)


def test_sentiment_in_a_folder_keeps_its_own_order(reviews):
    for name in FILES:
        folder = reviews(f"kept/{name}", 20).parent
    assert open_corpus(folder).stream.names == ("films", "products", "editorials", "tweets")


def test_a_folder_of_data_files_is_read_file_by_file_in_the_order_of_names(reviews, write):
    for name in ("dvds.jsonl", "books.jsonl.gz", "cars.jsonl"):
        folder = reviews(f"mine/{name}", 20).parent
    write("mine/notes.txt", "not data")
    loaded = open_corpus(folder)
    assert loaded.stream.names == ("books", "cars", "dvds")
    assert any("drawn from" in notice for notice in loaded.notices)


def test_files_are_read_as_ever(reviews):
    files = [reviews("dvds.jsonl"), reviews("books.jsonl")]
    assert list(open_corpus(files).stream) == list(load_stream(files).stream)
    assert list(open_corpus(str(files[0])).stream) == list(load_stream(files[0]).stream)


def test_columns_and_domains_are_chosen_as_in_a_file(write_rows):
    path = write_rows("x.jsonl", [{"t": f"t{i}", "l": "ab"[i % 2], "topic": "uvw"[i % 3]} for i in range(60)])
    columns = Columns(text="t", label="l", by="topic")
    assert open_corpus(path, columns=columns, domains=["w", "u"]).stream.names == ("w", "u")


def test_what_is_not_there_or_holds_no_data_is_told(tmp_path):
    assert "does not exist" in refusal(tmp_path / "nowhere")
    assert "has no data files" in refusal(tmp_path)
    with pytest.raises(DataError, match="is not a folder"):
        find_corpus(tmp_path / "nowhere")
