"""The paper's corpora in the layouts that they are published in, and prepared."""

import hashlib

import pytest

from memgrow.errors import DataError
from research import data
from research.common.corpora import FIVE, fair_slice, holds, open_cornell, open_multinli, open_ubuntu, sizes_of
from tests.support.archives import multinli_archive
from tests.support.multinli_layout import write_multinli


def test_genres_are_domains_and_nothing_held_out_is_trained_on(tmp_path):
    stream = open_multinli(write_multinli(tmp_path, 12)).stream
    assert stream.names == FIVE
    for domain in stream:
        held = {example.texts for example in (*domain.validation, *domain.test)}
        assert not held & {example.texts for example in domain.train}
        assert not {one.text for one in domain.validation} & {one.text for one in domain.test}


def test_a_smaller_limit_is_within_a_larger_one(tmp_path):
    folder = write_multinli(tmp_path, 20)
    few, many, every = (open_multinli(folder, limit=limit).stream["travel"].train for limit in (3, 9, None))
    assert (len(few), len(many)) == (3, 9)
    assert set(few) < set(many) < set(every)
    assert fair_slice(every[::-1], 9) == many[::-1]


def cornell(folder, films=12, lines=4):
    folder.mkdir(parents=True, exist_ok=True)
    said, talks = [], []
    for film in range(films):
        names = [f"L{film * 100 + line}" for line in range(lines)]
        said += [f"{name} +++$+++ u0 +++$+++ m{film} +++$+++ A +++$+++ {name} is said" for name in names]
        talks.append(f"u0 +++$+++ u1 +++$+++ m{film} +++$+++ {names}")
    (folder / "movie_lines.txt").write_text("\n".join(said), encoding="cp1252")
    (folder / "movie_conversations.txt").write_text("\n".join(talks), encoding="cp1252")
    return folder


def test_films_stay_whole(tmp_path):
    (domain,) = open_cornell(cornell(tmp_path), 5, 5).stream
    assert sizes_of([domain]) == {"cornell": {"train": 27, "validation": 3, "test": 6}}
    assert (domain.train[0].text, domain.train[0].reply) == ("L0 is said", "L1 is said")


def test_the_last_turn_of_a_help_channel_is_the_message(tmp_path):
    train = [
        "Context,Utterance,Label",
        '"hi __eou__ __eot__ my disk __eou__ is full __eou__ __eot__",empty it,1.0',
        "x,y,0",
    ]
    held = ["Context,Ground Truth Utterance,Distractor_0"]
    (tmp_path / "train.csv").write_text("\n".join(train))
    (tmp_path / "valid.csv").write_text("\n".join([*held, "where __eot__,there,no"]))
    (tmp_path / "test.csv").write_text("\n".join([*held, "when __eot__,then,no"]))
    assert holds(tmp_path, "ubuntu")
    (domain,) = open_ubuntu(tmp_path, (1, 1, 1)).stream
    assert [(one.text, one.reply) for one in domain.train] == [("my disk is full", "empty it")]


def test_too_little_is_refused(tmp_path):
    with pytest.raises(DataError, match="too few"):
        open_cornell(cornell(tmp_path), 30, 30)
    with pytest.raises(DataError, match=r"research\.data get multinli"):
        open_multinli(tmp_path)


def test_a_corpus_is_fetched_from_a_copy_of_its_archive_and_checked(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "data"))
    content = multinli_archive(tmp_path / "made")
    (tmp_path / "copy.zip").write_bytes(content)
    with pytest.raises(SystemExit, match="SHA-256"):
        data.main(["get", "multinli", "--from", str(tmp_path / "copy.zip")])
    known = data.SOURCES["multinli"]
    monkeypatch.setitem(
        data.SOURCES, "multinli", type(known)(known.url, hashlib.sha256(content).hexdigest(), known.files, known.about)
    )
    data.main(["get", "multinli", "--from", str(tmp_path / "copy.zip")])
    assert open_multinli(data.folder_of("multinli")).stream.names == FIVE
    data.main(["list"])
    assert "cornell: lines of films" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="cannot fetch"):
        data.main(["get", "ubuntu", "--from", str(tmp_path / "nowhere.tar.gz")])
