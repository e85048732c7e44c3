"""The tokens of examples on the disk, as sequences that stand in the place of lists in memory.

Texts are split once. A word gets a number when it is first seen; which number a model knows it by is settled only when
all words have been counted, so that a table from the one to the other is laid over the file. A model that knows fewer
words is another table.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Generic, TypeVar, cast, overload

import numpy as np

from memgrow.data.token_file import Numbers, TokenFile
from memgrow.text import UNKNOWN_INDEX, Vocabulary, WordCounts

T = TypeVar("T", bound=Sequence[Any])


class TokensOnDisk(Sequence[tuple[T, ...]], Generic[T]):
    """The texts of examples as a sequence; what a number is shown as is said by those below."""

    def __init__(self, file: TokenFile) -> None:
        self.file = file

    def _shown(self, numbers: Numbers) -> T:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.file)

    @overload
    def __getitem__(self, index: int) -> tuple[T, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[T, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[T, ...] | list[tuple[T, ...]]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        return tuple(map(self._shown, self.file.texts(range(len(self))[index])))

    def __iter__(self) -> Iterator[tuple[T, ...]]:
        return map(self.__getitem__, range(len(self)))


class WordsOnDisk(TokensOnDisk[list[str]]):
    """Texts as words."""

    def __init__(self, file: TokenFile, words: Sequence[str]) -> None:
        super().__init__(file)
        self._words = words  # by their numbers in the file

    def _shown(self, numbers: Numbers) -> list[str]:
        words = self._words
        return [words[number] for number in numbers.tolist()]

    def word_counts(self, min_documents: int) -> WordCounts:
        """The twin of `count_words`, which counts in memory."""
        file, distinct = self.file, len(self._words)
        shared = None
        if min_documents > 1:
            enough = np.flatnonzero(file.examples_with(distinct) >= min_documents)
            shared = {self._words[number] for number in enough.tolist()}
        return WordCounts(dict(zip(self._words, file.occurrences(distinct).tolist(), strict=True)), shared)

    def encoded(self, vocabulary: Vocabulary) -> "NumbersOnDisk":
        """The same texts as the numbers of a vocabulary."""
        return NumbersOnDisk(self.file, np.array(vocabulary.encode(self._words), dtype=np.int32))


class NumbersOnDisk(TokensOnDisk[Sequence[int]]):
    """Texts as the numbers that a model knows their tokens by."""

    def __init__(self, file: TokenFile, table: Numbers | None = None) -> None:
        super().__init__(file)
        self._table = table  # from the numbers in the file to the model's; None: they are the same

    def _shown(self, numbers: Numbers) -> Sequence[int]:
        return cast(Sequence[int], numbers if self._table is None else self._table[numbers])

    def as_known_to(self, words: int) -> "NumbersOnDisk":
        """The same texts for a model that knows the first `words` words alone."""
        table = np.arange(self._largest + 1, dtype=np.int32) if self._table is None else self._table
        return NumbersOnDisk(self.file, np.where(table < words, table, np.int32(UNKNOWN_INDEX)))

    @cached_property
    def _largest(self) -> int:
        return max((max(text, default=0) for texts in self for text in texts), default=0)


class NumberedWords(dict[str, int]):
    """Numbers for words, each given as a word is first asked for."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class TokenWriter:
    """Writes what a tokenizer made of examples, words or numbers."""

    def __init__(self) -> None:
        self._file, self._words, self._numbered = TokenFile(), NumberedWords(), False

    def append(self, texts: Sequence[tuple[Sequence[Any], ...]], numbered: bool) -> None:
        every = chain.from_iterable(chain.from_iterable(texts))
        self._file.append(texts, every if numbered else map(self._words.__getitem__, every))
        self._numbered = numbered

    def finished(self) -> WordsOnDisk | NumbersOnDisk:
        """All that has been written."""
        return NumbersOnDisk(self._file) if self._numbered else WordsOnDisk(self._file, list(self._words))
