"""Words: tokenising, a vocabulary that grows, and word vectors from GloVe and word2vec files."""

from memgrow.text.stored_words import StoredWords, WordCounts, store_words
from memgrow.text.tokenise import tokenise, tokenise_lower
from memgrow.text.vectors import Vectors, read_vectors
from memgrow.text.vocabulary import PADDING, PADDING_INDEX, UNKNOWN, UNKNOWN_INDEX, Vocabulary

__all__ = [
    "PADDING",
    "PADDING_INDEX",
    "UNKNOWN",
    "UNKNOWN_INDEX",
    "StoredWords",
    "Vectors",
    "Vocabulary",
    "WordCounts",
    "read_vectors",
    "store_words",
    "tokenise",
    "tokenise_lower",
]
