"""Words come apart as in the Penn Treebank, and tokenizing again changes nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.data.text import REPAIRS, TOKEN, tokenize

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
        ("Stop! (Now?)", "Stop ! ( Now ? )"),
        ("$3,000.50 at 10:30, 5%", "$ 3,000.50 at 10:30 , 5 %"),
        ("In 1990, 7.", "In 1990 , 7 ."),
        ("a well-known state-of-the-art 3-5 COVID-19", "a well-known state-of-the-art 3-5 COVID-19"),
        ("word--word -x-", "word -- word - x -"),
        ("wait... what....", "wait ... what ... ."),
        ("``quoted''", "`` quoted ''"),
        ('"quoted" “twice”', '" quoted " “ twice ”'),
        ("snake_case", "snake _ case"),
        ("Mr. Lee and Dr. Wu.", "Mr. Lee and Dr. Wu ."),
        ("in the U.S., e.g. at 5 p.m.", "in the U.S. , e.g. at 5 p.m."),
        ("the U.S.'s U.S.-based 'Mrs. X'", "the U.S. 's U.S.-based ' Mrs. X '"),
        ("i.e the e.g, a.b", "i.e the e.g , a.b"),
        ("etc. and etc...", "etc. and etc ..."),
        ("The end.", "The end ."),
    ],
)
def test_words_come_apart_as_in_the_treebank(text: str, words: str) -> None:
    assert tokenize(text) == words.split()


@pytest.mark.parametrize("word", ["naïve", "Straße", "हिन्दी", "Москва", "日本語", "می‌خواهم", "cafe\u0301", "❤\ufe0f"])
def test_words_of_any_script_stay_whole_with_their_accents(word: str) -> None:
    assert tokenize(f"({word})") == ["(", word, ")"]


def test_invisible_characters_do_not_hide_a_word() -> None:
    assert tokenize("\ufeffThe hyphen\u00adation non\u2011stop a\u200bb") == [
        "The",
        "hyphenation",
        "non-stop",
        "a",
        "b",
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\t\u00a0\u2003\x1c", "\u200b\ufeff"])
def test_a_text_without_any_word_gives_an_empty_list(text: str) -> None:
    assert tokenize(text) == []


@given(st.text() | st.lists(st.sampled_from(RICH), max_size=12).map("".join))
@settings(derandomize=True, deadline=None, max_examples=400)
def test_any_text_is_the_same_when_tokenized_again(text: str) -> None:
    tokens = tokenize(text)
    assert tokenize(" ".join(tokens)) == tokens
    assert all(token and not any(character.isspace() for character in token) for token in tokens)


@given(st.lists(st.sampled_from(RICH)).map("".join))
@settings(derandomize=True, deadline=None, max_examples=250)
def test_no_visible_character_is_lost(text: str) -> None:
    expected = [c for c in text if not c.isspace() and c not in "\u00ad\u200b"]
    assert "".join(tokenize(text)) == "".join(expected).replace("’", "'")


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
    assert tokenize(text) == words(text)


@given(st.lists(st.one_of(st.sampled_from(RICH), st.characters(codec="utf-8"))).map("".join))
def test_no_token_crosses_white_space_so_that_pieces_may_be_read_one_by_one(text):
    whole = TOKEN.findall(text.translate(REPAIRS))
    assert [token for piece in text.translate(REPAIRS).split() for token in TOKEN.findall(piece)] == whole


@given(st.lists(st.sampled_from([*RICH, " ", " "])).map("".join), st.integers(0, 5))
def test_the_beginning_of_a_text_is_split_as_the_whole_is(text: str, most: int) -> None:
    whole, beginning = tokenize(text), tokenize(text, most)
    assert beginning[:most] == whole[:most]
    assert (len(beginning) > most) == (len(whole) > most)
