"""A vocabulary grows without changing a word's number, and is refused where it is broken."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.errors import ModelError, SettingsError
from memgrow.text import PADDING, PADDING_INDEX, UNKNOWN, UNKNOWN_INDEX, Vocabulary

TOKENS = st.sampled_from(["a", "b", "c", "the", "é", "<pad>", "<unk>"]) | st.text(max_size=3)
TEXTS = st.lists(st.lists(TOKENS, max_size=8), max_size=6)
QUICK = settings(derandomize=True, deadline=None, max_examples=100)


def test_padding_and_unknown_come_first() -> None:
    vocabulary = Vocabulary(["dog", "cat"])
    assert vocabulary.words == ("<pad>", "<unk>", "dog", "cat")
    assert (vocabulary.words[PADDING_INDEX], vocabulary.words[UNKNOWN_INDEX]) == (PADDING, UNKNOWN)
    assert len(vocabulary) == 4
    assert len(Vocabulary()) == 2


def test_unknown_words_get_the_unknown_number() -> None:
    vocabulary = Vocabulary(["dog", "cat"])
    assert vocabulary.encode(["cat", "bird", "dog"]) == [3, 1, 2]
    assert vocabulary.index("bird") == 1
    assert "cat" in vocabulary
    assert "bird" not in vocabulary


def test_new_words_follow_by_frequency_and_then_by_name() -> None:
    grown = Vocabulary(["dog"]).extended([["b", "c", "dog"], ["c", "a", "dog", "rare"], ["a", "b", "c"]], min_count=2)
    assert grown.words == ("<pad>", "<unk>", "dog", "c", "a", "b")


def test_growth_leaves_the_old_vocabulary_as_it_was() -> None:
    old = Vocabulary(["dog"])
    old.extended([["cat"]])
    assert old == Vocabulary(["dog"])


def test_specials_spelt_out_in_a_text_are_unknown_words() -> None:
    grown = Vocabulary(["dog"]).extended([["<pad>", "<unk>", "cat"]])
    assert grown.words == ("<pad>", "<unk>", "dog", "cat")
    assert grown.encode(["<pad>", "<unk>"]) == [1, 1]
    assert "<pad>" not in grown


@given(TEXTS, TEXTS)
@QUICK
def test_old_words_keep_their_numbers_through_growth(first: list[list[str]], second: list[list[str]]) -> None:
    old = Vocabulary().extended(first)
    grown = old.extended(second)
    assert grown.words[: len(old)] == old.words
    assert all(grown.index(word) == old.index(word) for word in old.words)
    assert all(token in grown for text in second for token in text if token not in (PADDING, UNKNOWN))


@given(TEXTS, st.integers(1, 3), st.randoms(use_true_random=False))
@QUICK
def test_the_order_of_texts_does_not_matter(texts: list[list[str]], min_count: int, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(texts, len(texts))
    assert Vocabulary().extended(texts, min_count) == Vocabulary().extended(shuffled, min_count)


@given(TEXTS)
@QUICK
def test_every_known_word_encodes_to_its_place(texts: list[list[str]]) -> None:
    vocabulary = Vocabulary().extended(texts)
    assert vocabulary.encode(vocabulary.words[2:]) == list(range(2, len(vocabulary)))


@given(TEXTS)
@QUICK
def test_json_gives_the_same_vocabulary_back(texts: list[list[str]]) -> None:
    vocabulary = Vocabulary().extended(texts)
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["<pad>", "<unk>", "dog", "dog"], "'dog' would come twice"),
        (["<pad>", "<unk>", "<pad>"], "'<pad>' would come twice"),
        (["dog", "cat"], "starts with <pad> and <unk>"),
        (["<unk>", "<pad>", "dog"], "starts with <pad> and <unk>"),
        ([], "starts with <pad> and <unk>"),
        (["<pad>", "<unk>", 3], "list of strings"),
        ({"dog": 2}, "list of strings"),
    ],
)
def test_a_broken_vocabulary_is_refused_with_a_sentence(words: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Vocabulary.from_json(words)


def test_a_word_given_twice_is_refused() -> None:
    with pytest.raises(ModelError, match="'dog' would come twice"):
        Vocabulary(["dog", "cat", "dog"])


def test_a_word_must_occur_at_least_once() -> None:
    with pytest.raises(SettingsError, match="min_count is 0"):
        Vocabulary().extended([["dog"]], min_count=0)


def test_copies_are_equal_and_nothing_can_be_set() -> None:
    vocabulary = Vocabulary(["dog"])
    assert copy.deepcopy(vocabulary) == vocabulary
    with pytest.raises(AttributeError):
        vocabulary.words = ()  # type: ignore[misc]
