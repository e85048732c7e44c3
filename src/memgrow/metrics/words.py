"""Texts as the metrics of replies take them: words that somebody else has split."""

from collections.abc import Iterator, Sequence

from memgrow.errors import DataError

Texts = Sequence[Sequence[str]]  # the words of each text


def check_texts(outputs: Texts, references: Texts) -> None:
    """As many outputs as references, at least one, and each in words."""
    if len(outputs) != len(references):
        raise DataError(f"{len(outputs):,} outputs cannot be set beside {len(references):,} references; give as many")
    check_words(outputs)
    check_words(references)


def check_words(texts: Texts) -> None:
    if not texts:
        raise DataError("there is no text to measure; give at least one")
    if any(isinstance(text, str) for text in texts):
        raise DataError("a text to measure must be a list of words, not a string; split it first")


def ngrams(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    """So many neighbouring words each; none where there are fewer."""
    return zip(*(words[start:] for start in range(order)), strict=False)
