"""MultiNLI from a folder in its own layout: each pair once, no held-out pair in training, and everything told."""

import json
from dataclasses import replace

import pytest

from memgrow.data import Example
from memgrow.data.corpora import FIVE, open_multinli
from memgrow.data.corpora.multinli import HELD_OUT, INNER, TRAIN
from memgrow.errors import DataError, SettingsError
from tests.support.multinli_layout import as_row, write_multinli, write_rows


@pytest.fixture
def folder(tmp_path):
    return write_multinli(tmp_path / "corpus", 30)


def add(path, *rows):
    old = [json.loads(line) for line in path.read_text().splitlines()]
    return write_rows(path, [*old, *rows])


def texts(part):
    return {example.texts for example in part}


def sizes(loaded):
    return {domain.name: len(domain.train) for domain in loaded.stream}


def test_the_five_genres_come_in_the_papers_order(folder):
    stream = open_multinli(folder).stream
    assert stream.names == FIVE == ("fiction", "government", "slate", "telephone", "travel")
    assert sizes(open_multinli(folder)) == dict.fromkeys(FIVE, 30)


def test_plain_and_compressed_files_in_the_folder_or_one_below_it_are_the_same(tmp_path, folder):
    packed = write_multinli(tmp_path / "packed", 30, compressed=True)
    nested = write_multinli(tmp_path / "nested" / INNER, 30).parent
    prints = [[domain.fingerprint() for domain in open_multinli(one).stream] for one in (folder, packed, nested)]
    assert prints[0] == prints[1] == prints[2]


def test_the_held_out_pairs_are_halved_so_that_no_premise_is_on_both_sides(folder):
    for domain in open_multinli(folder).stream:
        assert len(domain.validation) + len(domain.test) == 40
        assert abs(len(domain.validation) - len(domain.test)) <= 8
        assert not {one.text for one in domain.validation} & {one.text for one in domain.test}


def test_genres_can_be_chosen_and_are_the_same_in_any_company(folder):
    alone = open_multinli(folder, ["travel"]).stream
    assert alone.names == ("travel",)
    assert alone["travel"] == open_multinli(folder, ["travel", "fiction"]).stream["travel"]


@pytest.mark.parametrize("genres", [["fiction", "verse"], []])
def test_a_missing_genre_is_told_with_those_that_there_are(folder, genres):
    with pytest.raises(DataError, match="there is fiction, government, slate, telephone, travel") as caught:
        open_multinli(folder, genres)
    assert ("verse" in str(caught.value)) == bool(genres)


def test_pairs_without_a_gold_label_are_left_out_and_told(folder):
    before = open_multinli(folder)
    add(folder / TRAIN, as_row("slate", Example("a", "b", "-")))
    add(folder / HELD_OUT, as_row("slate", Example("c", "d", "-")), as_row("slate", Example("e", "f", "-")))
    after = open_multinli(folder)
    assert list(after.stream) == list(before.stream)
    assert f"1 row without a gold label was left out of {TRAIN}" in after.notices
    assert f"2 rows without a gold label were left out of {HELD_OUT}" in after.notices


def test_a_pair_without_a_hypothesis_is_left_out_and_told(folder):
    add(folder / TRAIN, as_row("slate", Example("a", " ", "neutral")))
    assert f"1 row with an empty text was left out of {TRAIN}" in open_multinli(folder).notices


def test_a_pair_that_comes_twice_stays_once_and_is_told(folder):
    before = open_multinli(folder)
    first, second = before.stream["slate"].train[:2]
    add(folder / TRAIN, as_row("slate", first), as_row("slate", second), as_row("slate", second))
    after = open_multinli(folder)
    assert list(after.stream) == list(before.stream)
    assert "3 training pairs were left out, as the same pair with the same label comes before" in after.notices


def test_a_pair_with_another_label_or_in_another_genre_is_another_pair(folder):
    (one,) = open_multinli(folder).stream["slate"].train[:1]
    other = replace(one, label="neutral" if one.label != "neutral" else "entailment")
    add(folder / TRAIN, as_row("slate", other), as_row("travel", one))
    after = open_multinli(folder)
    assert (sizes(after)["slate"], sizes(after)["travel"]) == (31, 31)
    assert not any("left out" in notice for notice in after.notices)


def test_a_held_out_pair_is_left_out_of_training_whatever_its_label_or_genre(folder):
    before = open_multinli(folder)
    (seen,), (other,) = before.stream["slate"].test[:1], before.stream["travel"].validation[:1]
    add(folder / TRAIN, as_row("slate", replace(seen, label="neutral")), as_row("fiction", other))
    after = open_multinli(folder)
    assert list(after.stream) == list(before.stream)
    told = "2 training pairs were left out, as the same two texts are among the held-out pairs"
    assert told in after.notices


def test_the_pairs_of_a_smaller_limit_are_among_those_of_a_larger_one_and_the_rest_stays_whole(folder):
    whole = open_multinli(folder).stream
    small, large = (open_multinli(folder, limit=limit).stream for limit in (7, 20))
    for some, more, every in zip(small, large, whole, strict=True):
        assert (len(some.train), len(more.train)) == (7, 20)
        assert texts(some.train) < texts(more.train) < texts(every.train)
        assert some.validation == every.validation
        assert some.test == every.test


def test_which_pairs_a_limit_keeps_does_not_depend_on_their_order(folder):
    before = open_multinli(folder, limit=7).stream
    lines = (folder / TRAIN).read_text().splitlines(keepends=True)
    (folder / TRAIN).write_text("".join(reversed(lines)))
    after = open_multinli(folder, limit=7).stream
    assert [texts(domain.train) for domain in before] == [texts(domain.train) for domain in after]


def test_a_limit_below_one_is_refused(folder):
    with pytest.raises(SettingsError, match="limit of 0"):
        open_multinli(folder, limit=0)


@pytest.fixture
def extra(tmp_path, folder):
    """Six further pairs of slate, more and less sure; a pair that is known, one held out, one of another genre."""
    known = open_multinli(folder).stream
    rows = [
        as_row("slate", Example(f"extra premise {i}", "extra", "neutral"), genre_conf=conf)
        for i, conf in enumerate((1, 0.95, 0.9, 0.9, 0.89, 0.1))
    ]
    rows.append(as_row("slate", known["travel"].train[0], genre_conf=1.0))
    rows.append(as_row("slate", known["fiction"].test[0], genre_conf=1.0))
    rows.append(as_row("letters", Example("dear", "reader", "neutral"), genre_conf=1.0))
    return write_rows(tmp_path / "extra.jsonl.gz", rows)


def test_extra_pairs_join_training_if_their_genre_is_sure_and_they_are_new(folder, extra):
    before, after = open_multinli(folder), open_multinli(folder, extra=extra)
    assert sizes(after) == sizes(before) | {"slate": 34}
    assert texts(after.stream["slate"].train) - texts(before.stream["slate"].train) == {
        (f"extra premise {i}", "extra") for i in range(4)
    }
    told = "\n".join(after.notices)
    assert "2 pairs were left out of extra.jsonl.gz, with a genre_conf below 0.9" in told
    assert "1 training pair was left out, as the same pair" in told
    assert "1 training pair was left out, as the same two texts" in told


def test_less_sure_pairs_are_taken_if_that_is_wished(folder, extra):
    assert sizes(open_multinli(folder, extra=extra, confidence=0.1))["slate"] == 36


def test_within_a_limit_the_corpus_own_pairs_go_first(folder, extra):
    for limit in (12, 30):
        own, more = open_multinli(folder, limit=limit), open_multinli(folder, limit=limit, extra=extra)
        assert list(own.stream) == list(more.stream)
    assert sizes(open_multinli(folder, limit=32, extra=extra))["slate"] == 32


@pytest.mark.parametrize("conf", [{}, {"genre_conf": "high"}, {"genre_conf": True}])
def test_an_extra_pair_that_does_not_say_how_sure_it_is_is_refused(folder, tmp_path, conf):
    path = write_rows(tmp_path / "x.jsonl", [as_row("slate", Example("a", "b", "neutral"), **conf)])
    with pytest.raises(DataError, match="line 1 has no number for the field 'genre_conf'"):
        open_multinli(folder, extra=path)


@pytest.mark.parametrize("name", [TRAIN, HELD_OUT])
def test_a_folder_without_one_of_the_files_is_told(folder, name):
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"has no {name}, plain or with .gz"):
        open_multinli(folder)
