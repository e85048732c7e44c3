"""The film corpus in its own layout: consecutive lines are pairs, films stay apart, and everything is told."""

import gzip
from dataclasses import replace
from itertools import pairwise

import pytest

from memgrow.data.corpora import CORPORA, get, open_cornell, open_corpus
from memgrow.data.corpora.catalogue import Web as Address
from memgrow.data.corpora.cornell import CONVERSATIONS, INNER, LINES, PREPARED
from memgrow.errors import DataError, SettingsError
from tests.support.archives import Web, checksum_of, serving, zipped

FILMS, TALKS, SPOKEN = 10, 4, 6  # films, conversations in each, lines in each: 5 pairs a conversation, 200 in all


def said(film, talk, line):
    return f"in film {film} talk {talk} they say {line}"


def layout(films=FILMS, text=said):
    """The two files as bytes. As in the corpus, the lines of a conversation need not stand in their order."""
    lines, talks, number = [], [], 0
    for film in range(films):
        for talk in range(TALKS):
            names = [f"L{number + line}" for line in range(SPOKEN)]
            number += SPOKEN
            lines += [
                f"{name} +++$+++ u{film} +++$+++ m{film} +++$+++ SOMEBODY +++$+++ {text(film, talk, line)}"
                for line, name in reversed(list(enumerate(names)))
            ]
            talks.append(f"u{film} +++$+++ u{film + 1} +++$+++ m{film} +++$+++ {names}")
    return {
        LINES: ("\r\n".join(lines) + "\r\n").encode("cp1252"),
        CONVERSATIONS: ("\n".join(talks) + "\n").encode(),
    }


def write(folder, files, compressed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(content) if compressed else content)
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "corpus", layout())


def opened(folder, validation=40, test=20):
    return open_cornell(folder, validation, test)


def pairs(*parts):
    return [(one.text, one.reply) for part in parts for one in part]


def refusal(*arguments, kind=DataError, **options):
    with pytest.raises(kind) as caught:
        opened(*arguments, **options)
    return str(caught.value)


def test_each_line_of_a_conversation_but_the_last_is_answered_by_the_next(folder):
    (domain,) = opened(folder).stream
    expected = [
        (said(film, talk, one), said(film, talk, other))
        for film in range(FILMS)
        for talk in range(TALKS)
        for one, other in pairwise(range(SPOKEN))
    ]
    assert domain.name == "cornell"
    assert pairs(domain.train, domain.validation, domain.test) == expected
    assert domain.labels == ()


def test_plain_and_compressed_files_in_the_folder_or_one_below_it_are_the_same(folder, tmp_path):
    packed = write(tmp_path / "packed", layout(), compressed=True)
    nested = write(tmp_path / "nested" / INNER, layout()).parent
    prints = {opened(one).stream[0].fingerprint() for one in (folder, packed, nested)}
    assert len(prints) == 1


def test_films_stay_apart_and_blocks_are_near_the_sizes_asked_for(folder):
    (domain,) = opened(folder, validation=47, test=26).stream
    assert (len(domain.train), len(domain.validation), len(domain.test)) == (120, 60, 20)
    films = [{one.text.split()[2] for one in part} for part in (domain.train, domain.validation, domain.test)]
    assert not films[0] & films[1]
    assert not films[1] & films[2]


def test_the_sizes_are_told(folder):
    assert opened(folder).notices == (
        "the last pairs are held out in two blocks (whole films): train 140, validation 40, test 20",
    )


def test_letters_of_the_windows_encoding_are_read_and_bytes_that_it_lacks_passed_over(tmp_path):
    files = layout(text=lambda film, talk, line: f"café “{film}” – {talk}  {line}\t…")
    files[LINES] = files[LINES].replace("café “0” – 0  0".encode("cp1252"), b"caf\xe9\x9d \x930\x94 \x96\x81 0 0")
    (domain,) = opened(write(tmp_path, files)).stream
    assert pairs(domain.train)[0] == ("café “0” – 0 0 …", "café “0” – 0 1 …")


def test_a_pair_with_an_empty_side_is_left_out_and_told(tmp_path):
    files = layout(text=lambda *at: "" if at == (0, 0, 2) else said(*at))
    files[LINES] = files[LINES].replace(b"+++$+++ \r\n", b"+++$+++\r\n")  # as where somebody took spaces off the end
    loaded = opened(write(tmp_path, files))
    assert len(loaded.stream[0].train) == 138
    assert "2 pairs were left out, with an empty message or reply" in loaded.notices


def test_a_pair_that_a_later_part_has_too_is_left_out_of_the_earlier_ones(tmp_path):
    def text(film, talk, line):
        return ("What?", "Nothing.")[line] if (film, talk) in ((0, 0), (7, 0), (9, 0)) and line < 2 else said(*at(film))

    def at(film):
        counter.append(film)
        return film, 0, len(counter)

    counter = []
    loaded = opened(write(tmp_path, layout(text=text)))
    (domain,) = loaded.stream
    assert [("What?", "Nothing.") in pairs(part) for part in (domain.train, domain.validation, domain.test)] == [
        False,
        False,
        True,
    ]
    assert "2 pairs were left out, as a later part has the same" in loaded.notices


def test_prepared_rows_are_cut_into_blocks_of_exactly_the_sizes_asked_for(tmp_path):
    rows = [("message", "response"), *((f"m {i}", f'r "{i}') for i in range(100))]
    content = "".join("\t".join(row) + "\n" for row in rows).encode()
    for compressed in (False, True):
        folder = write(tmp_path / str(compressed), {PREPARED: content}, compressed)
        loaded = opened(folder, validation=13, test=7)
        (domain,) = loaded.stream
        assert pairs(domain.train, domain.validation, domain.test) == rows[1:]
        assert (len(domain.validation), len(domain.test)) == (13, 7)
        assert "films are not named" in loaded.notices[0]


def test_prepared_rows_must_be_messages_and_replies(tmp_path):
    folder = write(tmp_path, {PREPARED: b"text\tlabel\nfine\tgood\n"})
    assert "has labelled texts and not messages" in refusal(folder)


def test_too_few_pairs_for_what_is_to_be_held_out_is_told(folder, tmp_path):
    assert "has 200 pairs, of which 10,000 are to be held out" in refusal(folder, validation=10_000, test=10_000)
    one_film = write(tmp_path / "one", layout(films=1))
    assert "too few different pairs or films" in refusal(one_film, validation=5, test=3)
    assert "0 pairs for validation and 5 for test" in refusal(folder, validation=0, test=5, kind=SettingsError)


@pytest.mark.parametrize("name", [LINES, CONVERSATIONS])
def test_a_folder_without_one_of_the_files_is_told(folder, name):
    (folder / name).unlink()
    told = refusal(folder)
    assert f"has no {LINES} with {CONVERSATIONS}, and no {PREPARED}" in told
    assert "memgrow data get cornell" in told


def test_a_torn_line_is_told_with_its_number(folder):
    with (folder / LINES).open("ab") as file:
        file.write(b"\nL999 +++$+++ u1\n")
    assert f"{LINES}, line 242 has 2 fields between +++$+++ and not 5" in refusal(folder)


def test_a_conversation_of_lines_that_are_not_there_is_told(folder):
    with (folder / CONVERSATIONS).open("a") as file:
        file.write("u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L1', 'L7777']\n")
    assert f"{CONVERSATIONS}, line 41 speaks of the line L7777" in refusal(folder)


def test_it_is_fetched_unpacked_and_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "shelf"))
    files = layout() | {"README.txt": b"how to cite", "chameleons.pdf": b"a paper"}
    content = zipped({f"{INNER}/{name}": one for name, one in files.items()} | {f"__MACOSX/{LINES}": b"junk"})
    with serving(Web(content)) as web:
        corpus = replace(CORPORA["cornell"], source=Address(web.url), checksum=checksum_of(content))
        told = get(corpus)
    assert f"{LINES}: 240 lines" in told
    assert {path.name for path in corpus.folder.iterdir()} == {LINES, CONVERSATIONS, "README.txt", "corpus.json"}
    assert corpus.is_in(corpus.folder)
    with pytest.raises(DataError, match="has 200 pairs, of which 10,000"):
        open_corpus("cornell")
