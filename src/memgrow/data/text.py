"""Text into words, close to the Penn Treebank's way. Tokenization is idempotent: tokens joined by spaces stay the same.

No alternative of the pattern looks further than one character past its own end, so a token that stands alone is matched
as it was among its neighbours. This file needs Python alone: exported models carry a copy of it.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from memgrow.errors import ModelError, counted, quoted

_CONTRACTIONS = ("n't", "'s", "'m", "'d", "'ll", "'re", "'ve")
_CLITICS = (*_CONTRACTIONS, *(clitic.upper() for clitic in _CONTRACTIONS))
_SHORTENED = ("'em", "'Em", "'t", "'tis", "'Tis", "'twas", "'Twas")  # whole where a word may start

# Only what hardly ever ends a sentence as a full word: "no." and "fig." would be wrong more often than right.
_ABBREVIATIONS = (
    *("Mr", "Mrs", "Ms", "Dr", "Prof", "Sr", "Jr", "St", "Mt", "Lt", "Capt", "Sgt", "Gen", "Sen", "Gov", "Rev"),
    *("etc", "vs", "cf", "viz", "approx", "est", "dept", "inc", "ltd", "corp", "co", "bros", "ave", "blvd"),
    *("Jan", "Feb", "Aug", "Sept", "Oct", "Nov", "Dec", "Ph.D"),
)

REPAIRS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201b\u02bc\uff07", "'"),  # typographic apostrophes
        **dict.fromkeys("\u2010\u2011", "-"),
        "\u200b": " ",
        **dict.fromkeys("\u00ad\u2060\ufeff", None),  # soft hyphen, word joiner, byte-order mark: never seen
    }
)


def _marks() -> str:
    """The accents, vowel signs and joiners that `\\w` leaves out, as the inside of a character class."""
    ranges: list[list[int]] = [[0x200C, 0x200D]]
    for code in range(0x300, 0x20000):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _pattern() -> re.Pattern[str]:
    letter, sign, mark = r"[^\W\d_]", r"[^\W_]", f"[{_marks()}]"
    # Possessive (`++`) where one sign repeats: nothing is tried twice, so the time is linear in the text. Groups are
    # not, as Python before 3.11.5 does not step back out of one that fails half way; after them nothing can fail.
    initials = rf"(?:{letter}\.){{2,}}+|{letter}\.{letter}(?!{sign}|{mark})"  # U.S. or e.g
    start = rf"(?:{initials}|\d++(?:[.,:/]\d++)*|{sign})"  # or 3,000.50 or any letter or digit
    part = rf"{start}{sign}*+(?:{mark}++{sign}*+)*"
    spelt = {form for word in _ABBREVIATIONS for form in (word, word.lower(), word.capitalize(), word.upper())}
    abbreviation = "|".join(re.escape(form) for form in sorted(spelt))
    leading = "|".join(sorted({*_CLITICS, *_SHORTENED} - {"n't", "N'T"}, key=len, reverse=True))
    return re.compile(
        rf"(?:{abbreviation})\.(?!\.)"
        rf"|{part}(?:[-']{part})*"
        rf"|(?:{leading})(?!{sign}|{mark})"
        r"|\.\.\.|--|``|''"
        r"|-[LR][RCS]B-"  # the treebank's brackets
        rf"|\S{mark}*+"
    )


TOKEN = _pattern()  # of texts after REPAIRS
_SHORT = 32  # characters: longer pieces hardly ever come again


def tokenize(text: str, most: int | None = None) -> list[str]:
    """Split a text into words and punctuation marks.

    With `most`, at least `most` + 1 tokens are returned if there are so many; the rest of the text is not looked at.
    """
    if not text.isascii():
        text = text.translate(REPAIRS)
    # No token crosses white space, and each piece has one at least.
    pieces = text.split() if most is None else text.split(maxsplit=most + 1)[: most + 1]
    return [token for piece in pieces for token in (_cached_tokens(piece) if len(piece) <= _SHORT else _tokens(piece))]


def tokenize_lower(text: str, most: int | None = None) -> list[str]:
    """The same in lower case."""
    return tokenize(text.lower(), most)


def _tokens(piece: str) -> tuple[str, ...]:
    tokens = TOKEN.findall(piece)
    if "'" not in piece:
        return tuple(tokens)
    return tuple(part for token in tokens for part in (_without_clitics(token) if "'" in token else (token,)))


_cached_tokens = lru_cache(maxsize=1 << 16)(_tokens)  # most pieces of a corpus come again and again


def _without_clitics(word: str) -> list[str]:
    """Take contractions off the end one by one: shouldn't've becomes should, n't, 've."""
    if word[0] == "'":
        return [word]
    end = len(word)
    pieces = []
    while word.endswith(_CLITICS, 0, end):
        start = word.rindex("'", 0, end)
        if word[end - 1] in "tT":
            start -= 1  # the n of n't
            if start == 0 or word[start - 1] in ".-'":
                break  # no whole word would be left before it
        pieces.append(word[start:end])
        end = start
    return [word[:end], *reversed(pieces)]


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
