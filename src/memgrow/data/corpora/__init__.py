"""Public corpora: fetched, checked and opened as streams; and streams from whatever a user names."""

from memgrow.data.corpora.catalogue import CORPORA, Corpus, corpus_called, data_folder
from memgrow.data.corpora.fetch import get
from memgrow.data.corpora.open import find_corpus, open_corpus
from memgrow.data.corpora.sentiment import open_sentiment

__all__ = [
    "CORPORA",
    "Corpus",
    "corpus_called",
    "data_folder",
    "find_corpus",
    "get",
    "open_corpus",
    "open_sentiment",
]
