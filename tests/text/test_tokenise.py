"""Words come apart as in the Penn Treebank, and tokenising again changes nothing."""

import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.text import tokenise
from memgrow.text.tokenise import REPAIRS, TOKEN

RICH = ["n't", "N'T", "'", "’", '"', "`", ".", "...", "-", "--", "n", "t", "s", "'s", "'ll", "a", "Mr", "etc", "ph.d"]
RICH += ["U.S.", "1", "23", ",", ":", "/", " ", "\n", "_", "\u0301", "\u200d", "\u00ad", "\u200b", "é", "LRB", "-RRB-"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't, can't, won't!", "I do n't , ca n't , wo n't !"),
        ("It's Ann's; I'm here", "It 's Ann 's ; I 'm here"),
        ("we've they'll he'd you're", "we 've they 'll he 'd you 're"),
        ("It’s what they don’t say", "It 's what they do n't say"),
        ("SHE'LL SAY IT ISN'T", "SHE 'LL SAY IT IS N'T"),
        ("shouldn't've", "should n't 've"),
        ("o'clock and O'Brien's", "o'clock and O'Brien 's"),
        ("the dogs' 'quoted' word", "the dogs ' ' quoted ' word"),
    ],
)
def test_contractions_come_apart(text: str, words: str) -> None:
    assert tokenise(text) == words.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Stop! (Now?)", "Stop ! ( Now ? )"),
        ("$3,000.50 at 10:30, 5%", "$ 3,000.50 at 10:30 , 5 %"),
        ("In 1990, 7.", "In 1990 , 7 ."),
        ("a well-known state-of-the-art 3-5 COVID-19", "a well-known state-of-the-art 3-5 COVID-19"),
        ("word--word -x-", "word -- word - x -"),
        ("wait... what....", "wait ... what ... ."),
        ("``quoted''", "`` quoted ''"),
        ('"quoted" “twice”', '" quoted " “ twice ”'),
        ("snake_case", "snake _ case"),
    ],
)
def test_punctuation_comes_apart_and_numbers_and_hyphenated_words_stay_whole(text: str, words: str) -> None:
    assert tokenise(text) == words.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mr. Lee and Dr. Wu.", "Mr. Lee and Dr. Wu ."),
        ("in the U.S., e.g. at 5 p.m.", "in the U.S. , e.g. at 5 p.m."),
        ("the U.S.'s U.S.-based 'Mrs. X'", "the U.S. 's U.S.-based ' Mrs. X '"),
        ("i.e the e.g, a.b", "i.e the e.g , a.b"),
        ("etc. and etc...", "etc. and etc ..."),
        ("The end.", "The end ."),
    ],
)
def test_abbreviations_keep_their_dots(text: str, words: str) -> None:
    assert tokenise(text) == words.split()


@pytest.mark.parametrize("word", ["naïve", "Straße", "हिन्दी", "Москва", "日本語", "می‌خواهم", "cafe\u0301", "❤\ufe0f"])
def test_words_of_any_script_stay_whole_with_their_accents(word: str) -> None:
    assert tokenise(f"({word})") == ["(", word, ")"]


def test_invisible_characters_do_not_hide_a_word() -> None:
    assert tokenise("\ufeffThe hyphen\u00adation non\u2011stop a\u200bb") == [
        "The",
        "hyphenation",
        "non-stop",
        "a",
        "b",
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\t\u00a0\u2003\x1c", "\u200b\ufeff"])
def test_a_text_without_any_word_gives_an_empty_list(text: str) -> None:
    assert tokenise(text) == []


def check_that_tokenising_again_changes_nothing(text: str) -> None:
    tokens = tokenise(text)
    assert tokenise(" ".join(tokens)) == tokens
    assert all(token and not any(character.isspace() for character in token) for token in tokens)


@given(st.text())
@settings(derandomize=True, deadline=None, max_examples=500)
def test_any_text_is_the_same_when_tokenised_again(text: str) -> None:
    check_that_tokenising_again_changes_nothing(text)


@pytest.mark.slow
def test_tangles_of_quotes_dots_and_hyphens_are_the_same_when_tokenised_again() -> None:
    chance = random.Random(0)
    tangles = ("".join(chance.choices(RICH, k=chance.randint(1, 12))) for _ in range(20_000))  # faster than hypothesis
    for text in ("on'tn't", "x-n't'n't", "a.b.n't's", "a.n't", *tangles):
        check_that_tokenising_again_changes_nothing(text)


@given(st.lists(st.sampled_from(RICH)).map("".join))
@settings(derandomize=True, deadline=None, max_examples=500)
def test_no_visible_character_is_lost(text: str) -> None:
    expected = [c for c in text if not c.isspace() and c not in "\u00ad\u200b"]
    assert "".join(tokenise(text)) == "".join(expected).replace("’", "'")


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("a.", lambda text: [text]),
        ("'", lambda text: ["''"] * (len(text) // 2)),
        ("-", lambda text: ["--"] * (len(text) // 2)),
        (".", lambda text: ["..."] * (len(text) // 3) + ["."] * (len(text) % 3)),
        ("n't", lambda text: ["n't"] * (len(text) // 3)),
        ("a-", lambda text: [text[:-1], "-"]),
        ("1,", lambda text: [text[:-1], ","]),
        ("a'", lambda text: [text[:-1], "'"]),
        ("\u0301", lambda text: [text]),
    ],
)
def test_long_repetitions_neither_hang_nor_overflow(unit: str, words) -> None:  # type: ignore[no-untyped-def]
    text = unit * 100_000  # with backtracking this would take hours
    assert tokenise(text) == words(text)


def test_accents_are_kept_as_they_are_written() -> None:
    composed, apart = "café", unicodedata.normalize("NFD", "café")
    assert tokenise(f"{composed} {apart}") == [composed, apart]


@given(st.lists(st.one_of(st.sampled_from(RICH), st.characters(codec="utf-8"))).map("".join))
def test_no_token_crosses_white_space_so_that_pieces_may_be_read_one_by_one(text):
    whole = TOKEN.findall(text.translate(REPAIRS))
    assert [token for piece in text.translate(REPAIRS).split() for token in TOKEN.findall(piece)] == whole


@given(st.lists(st.sampled_from([*RICH, " ", " "])).map("".join), st.integers(0, 5))
def test_the_beginning_of_a_text_is_split_as_the_whole_is(text: str, most: int) -> None:
    whole, beginning = tokenise(text), tokenise(text, most)
    assert beginning[:most] == whole[:most]
    assert (len(beginning) > most) == (len(whole) > most)
