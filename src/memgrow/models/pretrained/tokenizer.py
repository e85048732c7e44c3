"""The tokenizer of a pretrained encoder: examples as numbers of word pieces, in the form that the encoder was given."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from memgrow.data import Example
from memgrow.data.batches import Tokenized
from memgrow.errors import ModelError, SettingsError, brief
from memgrow.models.pretrained.files import EncoderFiles, encoders_extra, highest_number

Kept = dict[tuple["PieceTokenizer", tuple[Example, ...], int, bool], Tokenized]
ODDITIES = "a \u00e9 \u4e2d \U0001f600 \x00 !"  # a tokenizer that can read these has a piece for what it does not know
_kept: list[Kept] = []  # what is kept, within `tokens_kept`


@contextmanager
def tokens_kept() -> Iterator[None]:
    """Within, tokens are kept with their texts: for experiments, which read the same texts again in every stage."""
    _kept.append({})
    try:
        yield
    finally:
        _kept.pop()


class PieceTokenizer:
    """Reads `tokenizer.json` with the library tokenizers, which works in parallel and outside Python."""

    def __init__(self, text: str) -> None:
        with encoders_extra():
            from tokenizers import Tokenizer
        with _sentences():
            self._tokenizer: Any = Tokenizer.from_str(text)
        self._tokenizer.no_padding()
        # A text that spells out [SEP] is a text about separators, not a pair.
        self._tokenizer.encode_special_tokens = True
        self._alone = Lock()  # the library keeps the length that texts are cut to, and learners of all threads share it

    def check(self, embeddings: int) -> None:
        """Refuse a tokenizer that cannot read a text, or has numbers of pieces that the model has no embeddings for."""
        with self._alone, _sentences():
            self._tokenizer.encode(ODDITIES, ODDITIES)
            highest = highest_number(self._tokenizer)
        if not 0 <= highest < embeddings:
            raise ModelError(
                f"tokenizer.json has {highest + 1:,} pieces and the model {embeddings:,}; it is of another model: copy "
                "the right one"
            )

    def number(self, piece: str) -> int | None:
        """The number of a piece, such as [SEP]."""
        found: int | None = self._tokenizer.token_to_id(piece)
        return found

    def separator(self) -> int | None:
        """The piece after which the second text of a pair begins, if that has a type of its own, as BERT's has."""
        with self._alone:
            self._tokenizer.no_truncation()
            with _sentences():
                pair = self._tokenizer.encode("a", "b")
        types: list[int] = pair.type_ids
        second = types.index(1) if 1 in types else 0
        last: int | None = pair.ids[second - 1] if second and set(types[second:]) == {1} else None
        return last

    def pieces(self, numbers: Sequence[int]) -> list[str]:
        """The pieces of those numbers, for people to read."""
        return [self._tokenizer.id_to_token(number) or "?" for number in numbers]

    def tokenized(self, examples: Sequence[Example], longest: int, pairs_as_one: bool) -> Tokenized:
        """Examples as numbers, at most `longest` for each row: a text, or a pair that is read as one.

        Of a pair that is too long the longer text is cut; special pieces stay.
        """
        if not _kept:
            return self._read(examples, longest, pairs_as_one)
        kept, key = _kept[-1], (self, tuple(examples), longest, pairs_as_one)
        if key not in kept:
            kept[key] = self._read(examples, longest, pairs_as_one)
        return kept[key]

    def _read(self, examples: Sequence[Example], longest: int, pairs_as_one: bool) -> Tokenized:
        texts = len(examples[0].texts) if examples else 1
        each = 1 if pairs_as_one else texts  # rows of an example
        special = self._tokenizer.num_special_tokens_to_add(texts > each)
        if longest <= special:  # the library would cut nothing at all
            raise SettingsError(
                f"max_words {longest} leaves no room for words beside the {special} special pieces of a text: "
                f"set it to at least {special + 1}"
            )
        read = [example.texts for example in examples]
        if not all(text.isascii() or _is_unicode(text) for row in read for text in row):
            read = [tuple(text.encode(errors="replace").decode() for text in row) for row in read]
        rows: list[Any] = read if texts > each else [text for row in read for text in row]
        with self._alone:
            self._tokenizer.enable_truncation(longest, strategy="longest_first")
            with _sentences():
                encodings = self._tokenizer.encode_batch_fast(rows)
        # Without special pieces a blank text has none at all, and there would be nothing to take the mean of.
        numbers = [encoding.ids or [0] for encoding in encodings]
        cut = sum(bool(encoding.overflowing) for encoding in encodings)
        grouped = [tuple(numbers[start : start + each]) for start in range(0, len(numbers), each)]
        return Tokenized(grouped, [example.label for example in examples], cut, numbered=True)


@contextmanager
def _sentences() -> Iterator[None]:
    """Within, what the library says of a tokenizer that it cannot use is told in a sentence."""
    try:
        yield
    except BaseException as error:  # the library raises nothing more special, and its panics are not even that
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"tokenizer.json cannot be used ({brief(error)}); copy or fetch the encoder again") from error


def _is_unicode(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which JSON can hold, but no encoding of Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def tokenizer_of(files: EncoderFiles) -> PieceTokenizer:
    """The tokenizer of an encoder."""
    return _built(files.tokenizer)


@lru_cache(maxsize=4)
def _built(text: str) -> PieceTokenizer:
    """Building a tokenizer takes longer than most texts take."""
    return PieceTokenizer(text)
