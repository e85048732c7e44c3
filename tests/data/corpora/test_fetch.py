"""A corpus is fetched whole or not at all, and what is there stays until the new one is in place."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from memgrow.data.corpora import CORPORA, find_corpus, get, multinli, open_corpus
from memgrow.data.corpora.catalogue import Web as Address
from memgrow.data.corpora.multinli import FIVE, HELD_OUT, MISMATCHED, TRAIN
from memgrow.errors import DataError, SettingsError
from tests.support.archives import Web, checksum_of, multinli_archive, sentiment_package, serving, zipped


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """The folder of all corpora."""
    folder = tmp_path / "kept" / "data"
    monkeypatch.setenv("MEMGROW_DATA", str(folder))
    return folder


@pytest.fixture
def web(tmp_path):
    with serving(Web(multinli_archive(tmp_path / "made"))) as web:
        yield web


@pytest.fixture
def corpus(shelf, web):
    """MultiNLI as the server has it."""
    return replace(CORPORA["multinli"], source=Address(web.url), checksum=checksum_of(web.content))


def refusal(corpus, source=None, kind=DataError):
    with pytest.raises(kind) as caught:
        get(corpus, source)
    return str(caught.value)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_fetched_can_be_opened_and_no_archive_is_left(corpus, shelf):
    told = get(corpus)
    assert f"{TRAIN}: 300 rows" in told
    assert {path.name for path in shelf.rglob("*") if path.is_file()} == {
        TRAIN,
        HELD_OUT,
        MISMATCHED,
        "README.txt",
        "corpus.json",
    }
    assert open_corpus("multinli").stream.names == FIVE
    assert find_corpus("multinli") == shelf / "multinli"


@pytest.mark.parametrize("as_url", [False, True])
def test_a_copy_on_this_machine_is_used_and_left_as_it_is(corpus, web, tmp_path, as_url):
    copy = tmp_path / "my copy.zip"
    copy.write_bytes(web.content)
    get(corpus, copy.as_uri() if as_url else str(copy))
    assert copy.read_bytes() == web.content
    assert corpus.is_in(corpus.folder)
    assert web.asked == []


def test_a_copy_at_another_address_has_to_be_the_same(corpus, web):
    get(replace(corpus, source=Address("http://127.0.0.1:9/")), web.url)
    assert corpus.is_in(corpus.folder)


def test_a_damaged_copy_is_refused_and_stays(corpus, web, tmp_path):
    copy = tmp_path / "copy.zip"
    copy.write_bytes(b"!" + web.content[1:])
    assert "SHA-256" in refusal(corpus, str(copy))
    copy.write_bytes(web.content[:-1])
    assert "bytes and not" in refusal(corpus, str(copy))
    assert copy.exists()
    assert not corpus.folder.exists()


@pytest.mark.parametrize("source", ["nowhere.zip", ".", "ftp://example.org/x.zip"])
def test_what_is_neither_a_file_nor_an_address_is_told(corpus, source):
    assert "is no file and no http address" in refusal(corpus, source)


@pytest.mark.parametrize("trouble", [{"breaks": [1000, 0]}, {"status": 500}])
def test_a_failed_second_fetch_leaves_the_first_as_it_was(corpus, web, trouble):
    get(corpus)
    before = files(corpus.folder)
    for name, value in trouble.items():
        setattr(web, name, value)
    refusal(corpus)
    assert files(corpus.folder) == before


def test_an_archive_that_cannot_be_unpacked_leaves_nothing_half_made(corpus, tmp_path):
    copy = tmp_path / "copy.zip"
    copy.write_bytes(zipped({f"multinli_1.0/{TRAIN}": b"{}\n"}))
    assert "holds no file" in refusal(replace(corpus, checksum=checksum_of(copy.read_bytes())), str(copy))
    assert not files(corpus.folder.parent)


def test_an_archive_that_was_not_unpacked_is_not_fetched_again(corpus, web):
    def full(*_):
        raise OSError(28, "No space left on device")

    assert "No space left on device" in refusal(replace(corpus, unpack=full))
    get(corpus)
    assert web.asked == [None]


@pytest.mark.parametrize("inside", [False, True])
def test_a_data_folder_that_is_a_file_is_told(corpus, tmp_path, monkeypatch, inside):
    (tmp_path / "file").write_bytes(b"mine")
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "file" / "data" if inside else tmp_path / "file"))
    assert "set MEMGROW_DATA to a folder that can be written" in refusal(corpus)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_folder_of_the_users_own_is_not_replaced(corpus, web):
    corpus.folder.mkdir(parents=True)
    (corpus.folder / "thesis.txt").write_text("mine")
    assert "is not memgrow's own" in refusal(corpus)
    assert web.asked == []
    assert files(corpus.folder) == {"thesis.txt": b"mine"}


@pytest.mark.parametrize("harm", ["cut", "gone", "note"])
def test_a_corpus_that_was_damaged_later_is_told(corpus, harm):
    get(corpus)
    path = corpus.folder / ("corpus.json" if harm == "note" else MISMATCHED)
    path.unlink() if harm == "gone" else path.write_bytes(path.read_bytes()[:1])
    with pytest.raises(DataError, match=r"is damaged|data get multinli --again"):
        open_corpus("multinli")


def test_the_sentiment_corpus_is_unpacked_from_a_copy_of_the_package(shelf, tmp_path):
    copy = tmp_path / "vaderSentiment-0.5.zip"
    copy.write_bytes(sentiment_package())
    told = get(replace(CORPORA["sentiment"], checksum=checksum_of(copy.read_bytes())), str(copy))
    assert len(told) == 4
    assert open_corpus("sentiment").stream.names == ("films", "products", "editorials", "tweets")


# The hub


@pytest.fixture
def datasets(monkeypatch):
    """A hub with two rows in each part."""
    row = {"premise": "a", "hypothesis": "b", "label": 2, "genre": "slate", "promptID": 31, "pairID": "31c"}
    parts = {part: [row, {**row, "label": 0}] for part, _, _ in multinli.HUB_PARTS}
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=lambda name: parts))
    monkeypatch.setattr(multinli, "HUB_PARTS", tuple((part, name, 2) for part, name, _ in multinli.HUB_PARTS))
    return parts


def test_the_hubs_copy_is_written_in_the_corpus_own_layout(corpus, web, datasets):
    get(corpus, "hub")
    first, second = map(json.loads, (corpus.folder / TRAIN).read_text().splitlines())
    assert (first["gold_label"], second["gold_label"]) == ("contradiction", "entailment")
    assert first | {"gold_label": ""} == {
        "gold_label": "",
        "genre": "slate",
        "sentence1": "a",
        "sentence2": "b",
        "promptID": "31",
        "pairID": "31c",
    }
    assert web.asked == []


def test_a_copy_of_the_hub_that_is_not_whole_is_refused(corpus, datasets):
    datasets["validation_matched"].pop()
    assert "1 rows in its part validation_matched and not 2" in refusal(corpus, "hub")
    assert not files(corpus.folder.parent)


def test_without_the_extra_it_is_said_how_to_have_it(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "memgrow[hub]" in refusal(corpus, "hub", SettingsError)


def test_a_hub_out_of_reach_is_told(corpus, monkeypatch):
    def unreachable(name):
        raise ConnectionError("no route\nand much more")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=unreachable))
    assert "(no route)" in refusal(corpus, "hub")
