"""The sentiment corpus: clear ratings become labels, no review on two sides; and streams from names and folders."""

import hashlib
import json
from dataclasses import replace

import pytest

from memgrow.data import load_stream
from memgrow.data.corpora import CORPORA, RATINGS, get, open_corpus, read_ratings
from memgrow.errors import DataError, SettingsError
from tests.support.archives import rating_lines, sentiment_package, use_as_index

SENTIMENT = CORPORA["sentiment"]


@pytest.fixture(autouse=True)
def shelf(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


@pytest.fixture
def known(monkeypatch):
    """The corpus as a small archive has it."""
    content = sentiment_package(tweets=rating_lines("tweets", 40) + b"41\t0.2\tmeh\r\n")
    corpus = replace(SENTIMENT, sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(CORPORA, "sentiment", corpus)
    return corpus, content


@pytest.mark.parametrize(
    ("raw", "labels"),
    [
        (b"1\t0.51\ta\r\n2\t-0.51\tb\r\n", {"a": "positive", "b": "negative"}),
        (b"3\t0.5\tc\r\n4\t-0.5\td\r\n5\t0\te\r\n6\tnan\tf\r\n", {}),
        (b"1_1\t2\tgood\n2_1\t3\tgood\n", {"good": "positive"}),
        (b"3_1\t2\tso\n3_2\t-2\tso\n", {}),
        (b"id\tmean\ttext\n\r\n7\t1.5\t \n8\n9\t2\tfine\n", {"fine": "positive"}),
        ("1\t2\tcafé &amp; bar\n".encode(), {"café & bar": "positive"}),
        ("1\t2\tthé &lt;3\n".encode("latin-1"), {"thé <3": "positive"}),
        (b"3\t2\ta  tab\there\n", {"a tab here": "positive"}),
    ],
)
def test_ratings_become_labels(raw, labels):
    assert {one["text"]: one["label"] for one in read_ratings(raw)} == labels


def test_the_corpus_is_fetched_through_pip_without_running_its_code_and_opened_by_its_name(
    known, shelf, tmp_path, monkeypatch
):
    corpus, content = known
    (use_as_index(tmp_path / "index", monkeypatch) / "vaderSentiment-0.5.zip").write_bytes(content)
    notices = get(corpus)
    assert notices[0] == "films: 20 positive and 20 negative sentences"
    assert [path.name for path in shelf.iterdir()] == ["sentiment"]
    stream = open_corpus("sentiment").stream
    assert stream.names == tuple(RATINGS)
    for domain in stream:
        assert domain.labels == ("negative", "positive")
        assert len(domain.train) > len(domain.test) > len(domain.validation) > 0
        rows = [json.loads(line) for line in (corpus.folder / f"{domain.name}.jsonl").read_text().splitlines()]
        assert len({(row["group"], row["split"]) for row in rows}) == len({row["group"] for row in rows}) == 10
    assert [len(domain.train) for domain in open_corpus("sentiment", limit=5).stream] == [5] * 4
    assert open_corpus("sentiment", domains=["tweets"]).stream.names == ("tweets",)


def test_a_copy_of_the_archive_is_checked(known, tmp_path):
    corpus, content = known
    (copy := tmp_path / "copy.zip").write_bytes(content)
    get(corpus, str(copy))
    copy.write_bytes(sentiment_package())
    for source, keyword in ((str(copy), "SHA-256"), ("nowhere.zip", "not a file")):
        with pytest.raises(DataError, match=keyword):
            get(corpus, source)
    assert corpus.is_here()


def test_folders_and_files_are_opened(reviews, write, write_rows, monkeypatch, tmp_path):
    for name in ("dvds.jsonl", "books.jsonl.gz", "cars.jsonl"):
        folder = reviews(f"mine/{name}", 20).parent
    write("mine/notes.txt", "not data")
    write("mine/settings.json", "{}")
    assert open_corpus(folder).stream.names == ("books", "cars", "dvds")
    files = [reviews("dvds.jsonl"), reviews("books.jsonl")]
    assert list(open_corpus(files).stream) == list(load_stream(files).stream)
    reviews("sentiment/a.jsonl", 20)
    monkeypatch.chdir(tmp_path)
    assert open_corpus("./sentiment").stream.names == ("a",)
    for source, keyword in (("sentiment", "memgrow data get sentiment"), ("lost.csv", "does not exist")):
        with pytest.raises(DataError, match=keyword):
            open_corpus(source)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no data files"):
        open_corpus(tmp_path / "empty")
    with pytest.raises(SettingsError, match="limit"):
        open_corpus(files, limit=0)
