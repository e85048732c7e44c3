"""Which words of a domain join a vocabulary, and so stand in a model's folder for anybody to read.

A word that one document alone has may be a name, a number or a key. Only the domain that is being learnt is counted: to
add up over domains, a model would have to store the very words that it is to leave out.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from memgrow.errors import SettingsError, counted
from memgrow.text.vocabulary import Vocabulary

Document = Sequence[Sequence[str]]
"""The texts of an example, each as its words."""


@dataclass(frozen=True)
class StoredWords:
    """A vocabulary with a domain's words, and how they were chosen."""

    vocabulary: Vocabulary
    stored: int  # words that are new in it
    left_out: int  # words that might have been
    min_count: int
    min_documents: int

    @property
    def chosen_from(self) -> int:
        """The words that were not known before."""
        return self.stored + self.left_out

    def sentence(self, domain: str) -> str:
        """What a user should know of it."""
        stored = f"{domain}: {counted(self.stored, 'new word')} {'is' if self.stored == 1 else 'are'} stored"
        asked = [f"in at least {self.min_documents} documents"] if self.min_documents > 1 else []
        asked += [f"at least {self.min_count} times"] if self.min_count > 1 else []
        if not asked:
            return f"{stored}, also those that a single document has (min_documents=1)"
        left = f"{self.left_out:,} found in less {'is' if self.left_out == 1 else 'are'} not"
        advice = " (to store more: more rows, or min_documents=1)" if self.left_out and not self.stored else ""
        return f"{stored}, each found {' and '.join(asked)}; {left}{advice}"


@dataclass(frozen=True)
class WordCounts:
    """How often the words of a domain occur, and which of them are in enough documents; None: all."""

    occurrences: Mapping[str, int]
    shared: Container[str] | None


def store_words(
    known: Vocabulary, documents: Sequence[Document], min_count: int = 1, min_documents: int = 1
) -> StoredWords:
    """Extend a vocabulary by the words that occur often enough, and in enough of a domain's documents."""
    counts = count_words(documents, min_documents)
    vocabulary = known.extended_by(counts.occurrences, min_count, counts.shared)
    left_out = sum(word not in vocabulary for word in counts.occurrences.keys() - set(vocabulary.words[:2]))
    return StoredWords(vocabulary, len(vocabulary) - len(known), left_out, min_count, min_documents)


def count_words(documents: Sequence[Document], min_documents: int) -> WordCounts:
    """The words of documents, counted."""
    shared = None if min_documents == 1 else shared_words(documents, min_documents)
    return WordCounts(Counter(chain.from_iterable(chain.from_iterable(documents))), shared)


def shared_words(documents: Sequence[Document], least: int) -> set[str]:
    """The words that are in at least so many documents.

    Documents that share their longest text are one: copies of a row, and pairs that one premise was written for.
    """
    if least < 1:
        raise SettingsError(f"min_documents is {least}, but a word is in one document at least; give 1 or more")
    times = Counter(map(_longest, documents))
    counts: Counter[str] = Counter()
    alike: dict[tuple[str, ...], set[str]] = {}
    for document in documents:
        words = set(chain.from_iterable(document))
        if times[longest := _longest(document)] == 1:
            counts.update(words)
        else:
            alike.setdefault(longest, set()).update(words)
    counts.update(chain.from_iterable(alike.values()))
    return {word for word, count in counts.items() if count >= least}


def _longest(document: Document) -> tuple[str, ...]:
    longest: Sequence[str] = max(document, key=len)
    return tuple(longest)
