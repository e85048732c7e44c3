"""The vocabulary of a model: words with indices that never change while it grows, and which words of a domain join."""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from memgrow.errors import ModelError, counted, quoted

PADDING = "<pad>"
UNKNOWN = "<unk>"
PADDING_INDEX = 0
UNKNOWN_INDEX = 1
SPECIALS = (PADDING, UNKNOWN)

Document = Sequence[Sequence[str]]  # the texts of an example, each as its words


class Vocabulary:
    """Words and their indices; 0 is padding, 1 is every unknown word. Immutable: growth gives a new one."""

    __slots__ = ("_indices", "_words")

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words = (*SPECIALS, *words)
        # The specials have no entry: a text that spells "<pad>" out has an unknown word, not padding.
        self._indices = {word: index for index, word in enumerate(self._words) if index >= len(SPECIALS)}
        if len(self._indices) + len(SPECIALS) != len(self._words) or not self._indices.keys().isdisjoint(SPECIALS):
            twice = [word for word, count in Counter(self._words).items() if count > 1]
            raise ModelError(f"a vocabulary has each word once, but {', '.join(map(quoted, twice[:5]))} comes twice")

    @property
    def words(self) -> tuple[str, ...]:
        """All words by index, padding and unknown first."""
        return self._words

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        return word in self._indices

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._words == other._words

    def __hash__(self) -> int:
        return hash(self._words)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words)"

    def index(self, word: str) -> int:
        return self._indices.get(word, UNKNOWN_INDEX)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        index = self._indices.get
        return [index(token, UNKNOWN_INDEX) for token in tokens]

    def extended(
        self, texts: Iterable[Sequence[str]], min_count: int = 1, among: Container[str] | None = None
    ) -> "Vocabulary":
        """A vocabulary with the words of these texts after the old ones: the most frequent first, then by name."""
        counts = Counter(chain.from_iterable(texts))
        known = self._indices.keys() | set(SPECIALS)
        new = [word for word, count in counts.items() if count >= min_count and word not in known]
        if among is not None:
            new = [word for word in new if word in among]
        new.sort(key=lambda word: (-counts[word], word))
        return Vocabulary((*self._words[len(SPECIALS) :], *new))

    def to_json(self) -> list[str]:
        return list(self._words)

    @classmethod
    def from_json(cls, words: object) -> "Vocabulary":
        """The vocabulary that `to_json` gave, checked."""
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ModelError("a vocabulary is a list of strings, and this is not; save the model again")
        if tuple(words[: len(SPECIALS)]) != SPECIALS:
            raise ModelError(f"a vocabulary starts with {PADDING} and {UNKNOWN}, and this does not; save it again")
        return cls(words[len(SPECIALS) :])


@dataclass(frozen=True)
class StoredWords:
    """A vocabulary with a domain's words, and how they were chosen."""

    vocabulary: Vocabulary
    stored: int  # new words in it
    left_out: int  # words that occur too rarely
    min_count: int
    min_documents: int

    def sentence(self, domain: str) -> str:
        """What a user should know of it."""
        stored = f"{domain}: {counted(self.stored, 'new word')} stored"
        if self.min_documents == self.min_count == 1:
            return f"{stored}, including words that occur in a single document (min_documents=1)"
        limits = f"min_documents={self.min_documents}, min_count={self.min_count}"
        return f"{stored}; {self.left_out:,} rarer words not stored ({limits})"


def store_words(
    known: Vocabulary, documents: Sequence[Document], min_count: int = 1, min_documents: int = 1
) -> StoredWords:
    """Extend a vocabulary by the words in enough documents: one that a single document has may be private."""
    shared = None if min_documents == 1 else shared_words(documents, min_documents)
    vocabulary = known.extended(chain.from_iterable(documents), min_count, shared)
    words = {word for document in documents for text in document for word in text}
    left_out = sum(word not in vocabulary for word in words.difference(SPECIALS))
    return StoredWords(vocabulary, len(vocabulary) - len(known), left_out, min_count, min_documents)


def shared_words(documents: Sequence[Document], least: int) -> set[str]:
    """The words in at least so many documents; those with the same longest text count as one."""
    words: dict[tuple[str, ...], set[str]] = {}
    for document in documents:
        longest: Sequence[str] = max(document, key=len)
        words.setdefault(tuple(longest), set()).update(chain.from_iterable(document))
    counts = Counter(chain.from_iterable(words.values()))
    return {word for word, count in counts.items() if count >= least}
