"""A vocabulary grows without changing a word's number, and is refused where it is broken."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.data.text import (
    PADDING,
    UNKNOWN,
    Vocabulary,
    shared_words,
    store_words,
)
from memgrow.errors import ModelError

TOKENS = st.sampled_from(["a", "b", "c", "the", "é", "<pad>", "<unk>"]) | st.text(max_size=3)
TEXTS = st.lists(st.lists(TOKENS, max_size=8), max_size=6)
QUICK = settings(derandomize=True, deadline=None, max_examples=100)


def test_new_words_follow_by_frequency_and_then_by_name() -> None:
    grown = Vocabulary(["dog"]).extended([["b", "c", "dog"], ["c", "a", "dog", "rare"], ["a", "b", "c"]], min_count=2)
    assert grown.words == ("<pad>", "<unk>", "dog", "c", "a", "b")


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
    assert grown.encode(old.words) == old.encode(old.words)
    assert all(token in grown for text in second for token in text if token not in (PADDING, UNKNOWN))


@given(TEXTS, st.integers(1, 3), st.randoms(use_true_random=False))
@QUICK
def test_the_order_of_texts_does_not_matter(texts: list[list[str]], min_count: int, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(texts, len(texts))
    assert Vocabulary().extended(texts, min_count) == Vocabulary().extended(shuffled, min_count)


@given(TEXTS)
@QUICK
def test_json_gives_the_same_vocabulary_back(texts: list[list[str]]) -> None:
    vocabulary = Vocabulary().extended(texts)
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["<pad>", "<unk>", "dog", "dog"], "'dog' comes twice"),
        (["<pad>", "<unk>", "<pad>"], "'<pad>' comes twice"),
        (["dog", "cat"], "starts with <pad>"),
        (["<unk>", "<pad>", "dog"], "starts with <pad>"),
        ([], "starts with <pad>"),
        (["<pad>", "<unk>", 3], "a list of strings"),
        ({"dog": 2}, "a list of strings"),
    ],
)
def test_a_broken_vocabulary_is_refused_with_a_sentence(words: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Vocabulary.from_json(words)


# Which words of a domain join

WORDS = st.sampled_from(["a", "b", "c", "d", "e", "<unk>"])
DOCUMENTS = st.lists(st.lists(st.lists(WORDS, max_size=4), min_size=1, max_size=2), max_size=8)


def naively_shared(documents: list[list[list[str]]], least: int) -> set[str]:
    def has(word: str) -> bool:
        rows = [document for document in documents if any(word in text for text in document)]
        return len({tuple(max(row, key=len)) for row in rows}) >= least

    return {word for document in documents for text in document for word in text if has(word)}


@given(DOCUMENTS, st.integers(1, 4))
@QUICK
def test_words_are_counted_as_one_would_by_hand(documents, least):
    assert shared_words(documents, least) == naively_shared(documents, least)


@given(DOCUMENTS, DOCUMENTS, st.integers(1, 3), st.integers(1, 3))
@QUICK
def test_what_joins_is_shared_and_frequent_and_the_rest_is_counted(first, documents, min_count, min_documents):
    known = store_words(Vocabulary(), first).vocabulary
    found = store_words(known, documents, min_count, min_documents)
    words = [word for document in documents for text in document for word in text]
    new = {word for word in words if word not in known and word != "<unk>"}
    joined = set(found.vocabulary.words[len(known) :])
    assert joined == {w for w in new if words.count(w) >= min_count and w in naively_shared(documents, min_documents)}
    assert (found.stored, found.stored + found.left_out) == (len(joined), len(new))
    assert found.vocabulary.words[: len(known)] == known.words


@pytest.mark.parametrize(
    "documents",
    [
        [[["secret"] * 9]],
        [[["my", "secret"]], [["my", "secret"]]],
        [[["a", "secret"], ["no"]], [["a", "secret"], ["yes"]], [["a", "secret"], ["maybe"]]],
        [[["a", "secret"], ["the", "secret"]]],
        [[["a", "secret"], ["the", "secret"]]] * 2,
    ],
    ids=["repeated in one", "in a copy", "the premise of several pairs", "both texts of a pair", "of a copied pair"],
)
def test_one_witness_is_not_enough_however_often_it_speaks(documents):
    assert "secret" not in store_words(Vocabulary(), documents, min_documents=2).vocabulary
