"""The vocabulary of a model: words, each with a number that never changes while the vocabulary grows."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain

from memgrow.errors import ModelError, SettingsError, quoted

PADDING = "<pad>"
UNKNOWN = "<unk>"
PADDING_INDEX = 0
UNKNOWN_INDEX = 1
_SPECIALS = (PADDING, UNKNOWN)


class Vocabulary:
    """Words and their numbers; 0 is padding, 1 is every unknown word. Immutable: growth gives a new one."""

    __slots__ = ("_indices", "_words")

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words = (*_SPECIALS, *words)
        # The specials have no entry, so that a text which spells "<pad>" out meets an unknown word, not padding.
        self._indices = {word: index for index, word in enumerate(self._words) if index >= len(_SPECIALS)}
        if len(self._indices) + len(_SPECIALS) != len(self._words) or not self._indices.keys().isdisjoint(_SPECIALS):
            twice = [word for word, count in Counter(self._words).items() if count > 1]
            raise ModelError(
                f"a vocabulary holds each word once, but {', '.join(map(quoted, twice[:5]))} would come twice; "
                f"remove the repeated words ({PADDING} and {UNKNOWN} are always there)"
            )

    @property
    def words(self) -> tuple[str, ...]:
        """All words by number, padding and unknown first."""
        return self._words

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        """Whether a token of a text has a number of its own."""
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
        number = self._indices.get
        return [number(token, UNKNOWN_INDEX) for token in tokens]

    def extended(
        self, texts: Iterable[Sequence[str]], min_count: int = 1, among: Container[str] | None = None
    ) -> "Vocabulary":
        """A vocabulary with the words of these texts after the old ones: the most frequent first, then by name.

        Of words that occur less often, or are not `among` those allowed, none joins.
        """
        return self.extended_by(Counter(chain.from_iterable(texts)), min_count, among)

    def extended_by(
        self, counts: Mapping[str, int], min_count: int = 1, among: Container[str] | None = None
    ) -> "Vocabulary":
        """The same with words that have been counted."""
        if min_count < 1:
            raise SettingsError(f"min_count is {min_count}, but a word occurs at least once; give 1 or more")
        known = self._indices.keys() | set(_SPECIALS)
        new = [word for word, count in counts.items() if count >= min_count and word not in known]
        if among is not None:
            new = [word for word in new if word in among]
        new.sort(key=lambda word: (-counts[word], word))
        return Vocabulary((*self._words[len(_SPECIALS) :], *new))

    def to_json(self) -> list[str]:
        return list(self._words)

    @classmethod
    def from_json(cls, words: object) -> "Vocabulary":
        """Check and take what `to_json` gave: a list of strings that starts with the two specials, no word twice."""
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ModelError("a vocabulary is a list of strings, and this is not; save the model again")
        if tuple(words[: len(_SPECIALS)]) != _SPECIALS:
            raise ModelError(
                f"a vocabulary starts with {PADDING} and {UNKNOWN}, but this one starts with "
                f"{', '.join(map(quoted, words[: len(_SPECIALS)]))}; save the model again, or put the two in front"
            )
        return cls(words[len(_SPECIALS) :])
