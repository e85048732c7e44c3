"""Words of a domain are stored only if enough of its documents share them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.errors import SettingsError
from memgrow.text import Vocabulary, store_words
from memgrow.text.stored_words import shared_words

WORDS = st.sampled_from(["a", "b", "c", "d", "e", "<unk>"])
DOCUMENTS = st.lists(st.lists(st.lists(WORDS, max_size=4), min_size=1, max_size=2), max_size=8)
QUICK = settings(derandomize=True, deadline=None, max_examples=40)


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


def test_short_answers_that_recur_are_shared():
    rows = [[["a", "long", "question"], ["yes"]], [["and", "another", "one"], ["yes"]]]
    assert store_words(Vocabulary(), rows, min_documents=2).vocabulary.words[2:] == ("yes",)


def test_without_a_bound_every_word_joins_in_the_same_order():
    texts = [["b", "a"], ["b", "c"], ["b", "c"]]
    assert store_words(Vocabulary(), [[text] for text in texts]).vocabulary == Vocabulary().extended(texts)


@pytest.mark.parametrize(
    ("documents", "least", "sentence"),
    [
        (
            [[["a", "b"]], [["a"]]],
            (1, 2),
            "x: 1 new word is stored, each found in at least 2 documents; 1 found in less",
        ),
        (
            [[["a", "b"]], [["a"]]],
            (2, 1),
            "x: 1 new word is stored, each found at least 2 times; 1 found in less is not",
        ),
        ([[["a", "b"]], [["a"]]], (1, 1), "x: 2 new words are stored, also those that a single document has"),
        (
            [[["a", "b"]]],
            (1, 2),
            "x: 0 new words are stored, .*; 2 found in less are not .*more rows, or min_documents=1",
        ),
    ],
)
def test_a_sentence_says_what_is_stored_and_what_is_not(documents, least, sentence):
    assert re.match(sentence, store_words(Vocabulary(), documents, *least).sentence("x"))


def test_a_word_is_in_one_document_at_least():
    with pytest.raises(SettingsError, match="min_documents is 0"):
        store_words(Vocabulary(), [], min_documents=0)
