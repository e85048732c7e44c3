"""The help channel's corpus in its own layout: the last turn is answered by the right utterance; parts are drawn."""

import csv
import gzip
import io
import tarfile
from dataclasses import replace

import pytest

from memgrow.data.corpora import CORPORA, get, open_corpus, open_ubuntu
from memgrow.data.corpora.catalogue import Web as Address
from memgrow.data.corpora.cornell import PREPARED as FILMS
from memgrow.data.corpora.download import Checksum
from memgrow.data.corpora.ubuntu import FILES, PREPARED, last_turn, one_text
from memgrow.errors import DataError, SettingsError
from tests.support.archives import Web, checksum_of, serving

HELD_OUT = ["Context", "Ground Truth Utterance", *(f"Distractor_{i}" for i in range(9))]


def table(header, rows):
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return file.getvalue().encode()


def context(name):
    return f"hello __eou__ __eot__ {name} asks __eou__ please? __eou__ __eot__ "


def published(train=20, held_out=12):
    """As many right rows and as many wrong ones in training; nine wrong answers beside each right one elsewhere."""
    right = [(context(f"train {i}"), f"reply {i} , really __eou__", label) for i in range(train) for label in (1, 0)]
    right = [(said, reply if label else "something else", label) for said, reply, label in right]
    rows = {
        part: [(context(f"{part} {i}"), f"{part} {i} __eou__ ok __eou__", *["wrong"] * 9) for i in range(held_out)]
        for part in ("valid", "test")
    }
    return {
        "train.csv": table(["Context", "Utterance", "Label"], right),
        **{f"{part}.csv": table(HELD_OUT, rows[part]) for part in rows},
    }


def prepared(sizes=(60, 4, 5)):
    rows = {
        file: [f"{file} {i // 2}\treply {i}" for i in range(size)] for file, size in zip(PREPARED, sizes, strict=True)
    }
    return {file: "\n".join(["message\tresponse", *lines, ""]).encode() for file, lines in rows.items()}


def write(folder, files, compressed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(content) if compressed else content)
    return folder


def packed(files, **links):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in links.items():
            info = tarfile.TarInfo(f"{name}.csv")
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "corpus", published())


def refusal(*arguments, kind=DataError):
    with pytest.raises(kind) as caught:
        open_ubuntu(*arguments)
    return str(caught.value)


def sizes(loaded):
    return tuple(len(part) for part in (loaded.stream[0].train, loaded.stream[0].validation, loaded.stream[0].test))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("a __eou__ __eot__ b __eou__ c __eou__ __eot__ ", "b c"),
        ("a __eou__ __eot__ b", "b"),
        ("a  b __eou__", "a b"),
        ("a __eou__ __eot__ __eou__ __eot__", ""),
        ("", ""),
    ],
)
def test_the_last_turn_is_one_text_without_marks(said, expected):
    assert last_turn(said) == expected


def test_an_utterance_is_one_text_without_marks():
    assert one_text("try\tthis __eou__ or that __eou__ __eot__") == "try this or that"


def test_right_utterances_answer_the_last_turn_and_wrong_ones_are_left_out(folder):
    (domain,) = open_ubuntu(folder, (20, 12, 12)).stream
    assert domain.name == "ubuntu"
    assert {(one.text, one.reply) for one in domain.train} == {
        (f"train {i} asks please?", f"reply {i} , really") for i in range(20)
    }
    assert {(one.text, one.reply) for one in domain.test} == {
        (f"test {i} asks please?", f"test {i} ok") for i in range(12)
    }


def test_each_part_comes_from_its_own_file_where_that_has_enough(folder):
    loaded = open_ubuntu(folder, (9, 3, 3))
    (domain,) = loaded.stream
    assert sizes(loaded) == (9, 3, 3)
    for part, name in ((domain.train, "train"), (domain.validation, "valid"), (domain.test, "test")):
        assert all(one.text.startswith(name) for one in part)
    told = "the parts (train 9, validation 3, test 3) were drawn so that no message is in two of them"
    assert loaded.notices == (told,)


def test_where_a_file_has_too_few_all_parts_are_drawn_from_all_and_it_is_told(tmp_path):
    loaded = open_ubuntu(write(tmp_path, prepared()), (31, 13, 13))
    (domain,) = loaded.stream
    assert sizes(loaded) == (31, 13, 13)
    messages = [{one.text for one in part} for part in (domain.train, domain.validation, domain.test)]
    assert sum(map(len, messages)) == len(set().union(*messages))
    told = "drawn from all files together (ubuntu_train.tsv 60, ubuntu_dev.tsv 4, ubuntu_test.tsv 5 different pairs)"
    assert any(told in notice for notice in loaded.notices)


def test_the_seed_draws_others_and_the_same_seed_the_same(folder):
    first, again, other = (open_ubuntu(folder, (9, 3, 3), seed).stream[0] for seed in (0, 0, 1))
    assert first == again
    assert first.test != other.test


def test_plain_and_compressed_files_are_the_same(folder, tmp_path):
    small = write(tmp_path / "packed", published(), compressed=True)
    assert list(open_ubuntu(small, (9, 3, 3)).stream) == list(open_ubuntu(folder, (9, 3, 3)).stream)


def test_empty_sides_and_pairs_that_come_again_are_left_out_and_told(tmp_path):
    files = published()
    rows = [(context("train 0"), "Reply 0 ,  really __eou__", 1), (context("x"), " __eou__ ", "1.0"), ("", "y", "1")]
    files["train.csv"] += table(rows[0], rows[1:])
    loaded = open_ubuntu(write(tmp_path, files), (20, 12, 12))
    assert sizes(loaded) == (20, 12, 12)
    assert "2 pairs were left out, with an empty message or reply" in loaded.notices
    assert "1 pair was left out, as the same comes before" in loaded.notices


def test_more_pairs_than_there_are_and_parts_of_nothing_are_refused(folder):
    assert "has 44 different pairs, too few to draw 9,000 + 3,000 + 3,000" in refusal(folder)
    assert "parts of 9, 0, 3 pairs" in refusal(folder, (9, 0, 3), kind=SettingsError)


def test_what_is_not_the_corpus_is_told(folder, tmp_path):
    assert "memgrow data get ubuntu" in refusal(tmp_path)
    write(folder, {"valid.csv": b"message,answer\na,b\n"})
    assert "valid.csv has not the columns of the corpus" in refusal(folder)
    write(folder, {"valid.csv": published()["valid.csv"], "train.csv": b"Context,Utterance,Label\na,b,maybe\n"})
    assert "train.csv, line 2 has the label 'maybe'" in refusal(folder)
    labelled = write(tmp_path / "labelled", dict.fromkeys(PREPARED, b"text\tlabel\na\tb\n"))
    assert "has labelled texts" in refusal(labelled)


def test_a_folder_of_ones_own_with_files_of_the_same_names_is_not_taken_for_the_corpus(tmp_path):
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(20)]
    mine = write(tmp_path / "mine", dict.fromkeys(FILES, table(["text", "label"], rows)))
    assert open_corpus(mine).stream.names == ("mine",)
    assert not CORPORA["ubuntu"].is_in(write(tmp_path / "empty", dict.fromkeys(FILES, b"")))


@pytest.mark.slow
def test_both_dialogue_corpora_in_one_folder_or_by_their_names_make_one_stream(tmp_path, monkeypatch):
    films = "".join(["message\tresponse\n", *(f"m {i}\tr {i}\n" for i in range(20_001))]).encode()
    both = write(tmp_path / "both", prepared((15_000, 10, 10)) | {FILMS: films}, compressed=True)
    loaded = open_corpus(both, limit=100)
    assert loaded.stream.names == ("cornell", "ubuntu")
    assert [len(domain.train) for domain in loaded.stream] == [1, 100]
    assert {notice.split(":")[0] for notice in loaded.notices} == {"cornell", "ubuntu"}
    assert open_corpus(both, domains=["ubuntu"]).stream.names == ("ubuntu",)
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "shelf"))
    write(tmp_path / "shelf" / "cornell", {FILMS: films})
    write(tmp_path / "shelf" / "ubuntu", prepared((15_000, 10, 10)))
    assert list(open_corpus(["cornell", "ubuntu"], limit=100).stream) == list(loaded.stream)
    assert open_corpus("ubuntu").stream.names == ("ubuntu",)
    with pytest.raises(SettingsError, match="is a corpus and stands alone"):
        open_corpus(["cornell", "sentiment"])


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "shelf"))
    return CORPORA["ubuntu"]


def test_it_is_fetched_by_its_checksum_alone_and_unpacked(corpus):
    assert corpus.checksum.size is None  # as long as nobody has published it
    content = packed(published() | {"notes.txt": b"not data"})
    with serving(Web(content, breaks=[0, 500])) as web:
        told = get(replace(corpus, source=Address(web.url), checksum=Checksum(None, checksum_of(content).sha256)))
    assert web.asked == [None, None, "bytes=500-"]
    assert told == ("train.csv: 41 lines", "valid.csv: 13 lines", "test.csv: 13 lines")
    assert {path.name for path in corpus.folder.iterdir()} == {*FILES, "corpus.json"}
    assert corpus.is_in(corpus.folder)
    assert sizes(open_ubuntu(corpus.folder, (9, 3, 3))) == (9, 3, 3)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (packed({"train.csv": b"x"}), "holds no file valid.csv, test.csv"),
        (packed({}, train="/etc/passwd", valid="a", test="b"), "holds no file train.csv"),
        (packed(published())[:-200], "cannot be unpacked"),
        (b"no archive", "cannot be unpacked"),
    ],
)
def test_an_archive_that_is_not_whole_leaves_nothing_behind(corpus, tmp_path, content, told):
    copy = tmp_path / "copy.tar.gz"
    copy.write_bytes(content)
    with pytest.raises(DataError, match=told):
        get(replace(corpus, checksum=checksum_of(content)), str(copy))
    assert not corpus.folder.exists()
