"""From examples to tensors: tokens, their indices once, then batches of texts of similar length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from math import isqrt
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memgrow.data.domain import Example
from memgrow.data.text import UNKNOWN_INDEX, Vocabulary, tokenize, tokenize_lower

UNKNOWN = ""  # no text has this word, so it never joins a vocabulary
SOME = 2048  # examples by which unknown words are counted
MANY_UNKNOWN = 0.3  # of the words: texts of a known domain have 5 to 15%


@dataclass(frozen=True)
class Tokenized:
    """Examples as tokens: words, or the token ids of a pretrained encoder."""

    texts: Sequence[tuple[Sequence[Any], ...]]  # words or, if `numbered`, token ids
    labels: Sequence[str | None]
    cut: int  # texts that were longer than allowed
    answered: bool = False  # whether the last text of each is a reply
    numbered: bool = False

    @property
    def documents(self) -> Sequence[tuple[Sequence[str], ...]]:
        """The examples whose words may join a vocabulary."""
        return () if self.numbered else self.texts


@dataclass(frozen=True)
class Encoded:
    """Examples as word indices, and labels as numbers (-1 where there is none)."""

    texts: Sequence[tuple[Sequence[int], ...]]
    labels: Sequence[int]
    answered: bool = False  # whether the last text of each is a reply

    def __len__(self) -> int:
        return len(self.texts)

    def length(self, index: int) -> int:
        """The words of an example's longest text: what it costs."""
        return max(map(len, self.texts[index]))

    @cached_property
    def bucket_keys(self) -> NDArray[np.int64]:
        """The order for batches with little padding: by the longer text of a pair, by message (in bands) and reply."""
        if not self.answered:
            return np.fromiter(map(self.length, range(len(self))), np.int64, len(self))
        bands = np.array([isqrt(4 * len(message)) for message, _ in self.texts], np.int64)
        replies = np.array([len(reply) for _, reply in self.texts], np.int64)
        combined: NDArray[np.int64] = bands * (replies.max(initial=0) + 1) + replies
        return combined

    def as_known_to(self, words: int) -> "Encoded":
        """The examples for a model that knows the first `words` words only; others become unknown."""
        texts = [tuple([w if w < words else UNKNOWN_INDEX for w in text] for text in texts) for texts in self.texts]
        return Encoded(texts, self.labels, self.answered)

    def some(self, indices: Sequence[int]) -> "Encoded":
        texts = [self.texts[index] for index in indices]
        return Encoded(texts, [self.labels[index] for index in indices], self.answered)

    def split_off(self, count: int) -> "Encoded":
        """The last `count` examples, which are taken out."""
        last = self.some(range(len(self) - count, len(self)))
        for part in (self.texts, self.labels):
            del cast(list[Any], part)[len(self.labels) - count :]
        return last


@dataclass(frozen=True)
class Batch:
    """Rows are texts: all first texts of the batch, then all second ones (pairs and replies)."""

    words: Tensor  # (B * texts, T), 0 after the end of a text
    lengths: Tensor  # (B * texts), on the CPU
    labels: Tensor  # (B)
    examples: Tensor  # (B): their numbers in the data


def tokenize_examples(
    examples: Sequence[Example], max_words: int, tokenizer: Callable[[str], list[str]] = tokenize
) -> Tokenized:
    """Examples as tokens: at most the first `max_words` of a text; one without any word is an unknown word."""
    texts, cut = [], 0
    reply_tokenizer = tokenizer
    if tokenizer in (tokenize, tokenize_lower):  # a reply is written in the case that it was learned in
        tokenizer, reply_tokenizer = partial(tokenizer, most=max_words), partial(tokenize, most=max_words)
    for example in examples:
        words = [tokenizer(text) for text in example.texts]
        if example.reply is not None:
            words.append(reply_tokenizer(example.reply))
        cut += sum(len(text) > max_words for text in words)
        texts.append(tuple(text[:max_words] or [UNKNOWN] for text in words))
    answered = any(example.reply is not None for example in examples)
    return Tokenized(texts, [example.label for example in examples], cut, answered)


def encode(tokenized: Tokenized, vocabulary: Vocabulary, labels: Sequence[str] = ()) -> Encoded:
    """Tokens as indices of a vocabulary, and labels as numbers."""
    numbers: dict[str | None, int] = {label: number for number, label in enumerate(labels)}
    texts: Sequence[tuple[Sequence[int], ...]] = tokenized.texts
    if not tokenized.numbered:
        texts = [tuple(vocabulary.encode(text) for text in texts) for texts in tokenized.texts]
    return Encoded(texts, [numbers.get(label, -1) for label in tokenized.labels], tokenized.answered)


@dataclass(frozen=True)
class UnknownWords:
    """How many words a model has read, and how many of them it does not know."""

    words: int = 0
    unknown: int = 0

    @property
    def share(self) -> float:
        return self.unknown / self.words if self.words else 0.0

    def __add__(self, other: "UnknownWords") -> "UnknownWords":
        return UnknownWords(self.words + other.words, self.unknown + other.unknown)

    def sentence(self, what: str) -> str | None:
        """A sentence for the user where much is unknown; None where it is not."""
        if self.share < MANY_UNKNOWN:
            return None
        return f"{self.share:.0%} of the words of {what} are unknown to the model, which reads them all alike"


def unknown_in(encoded: Encoded) -> UnknownWords:
    """The words of texts that were encoded by a vocabulary, the first 2,048 examples."""
    texts = [text for texts in islice(encoded.texts, SOME) for text in texts]
    return UnknownWords(sum(map(len, texts)), sum(int(np.equal(text, UNKNOWN_INDEX).sum()) for text in texts))


def collate(encoded: Encoded, indices: Sequence[int], device: torch.device) -> Batch:
    """The examples of those numbers as padded tensors."""
    chosen = [encoded.texts[index] for index in indices]
    rows = [text for texts in zip(*chosen, strict=True) for text in texts]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    words = np.zeros((len(rows), lengths.max()), np.int64)
    there = np.arange(words.shape[1]) < lengths[:, None]
    words[there] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    labels = torch.tensor([encoded.labels[index] for index in indices])
    return Batch(
        _moved(torch.from_numpy(words), device),
        torch.from_numpy(lengths),
        _moved(labels, device),
        _moved(torch.tensor(indices), device),
    )


def token_mask(words: Tensor, lengths: Tensor) -> Tensor:
    """Where rows (R, T) have a token and not padding: (R, T)."""
    return torch.arange(words.shape[1], device=words.device) < lengths.to(words.device).unsqueeze(1)


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, without waiting for earlier work of a GPU."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def shuffled(encoded: Encoded, size: int, seed: int, turn: int) -> list[list[int]]:
    """The batches of one epoch, of similar length: the seed decides who shares a batch, the turn their order."""
    drawn = torch.randperm(len(encoded), generator=torch.Generator().manual_seed(seed)).numpy()
    # Stable: examples of one length stay in the order that was drawn.
    order = drawn[np.argsort(encoded.bucket_keys[drawn], kind="stable")]
    batches = _cut(order, size)
    places = torch.randperm(len(batches), generator=torch.Generator().manual_seed(turn))
    return [batches[place] for place in places.tolist()]


def by_length(encoded: Encoded, size: int) -> list[list[int]]:
    """All examples in batches from short to long, for prediction."""
    return _cut(np.argsort(encoded.bucket_keys, kind="stable"), size)


def _cut(order: NDArray[np.int64], size: int) -> list[list[int]]:
    indices: list[int] = order.tolist()
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def by_tokens(encoded: Encoded, most: int) -> Iterator[list[int]]:
    """All examples in batches from long to short, of at most so many tokens with padding, or of one example."""
    order, start = np.argsort(-encoded.bucket_keys, kind="stable"), 0
    while start < len(order):
        first = int(order[start])
        size = max(1, most // (len(encoded.texts[first]) * max(1, encoded.length(first))))
        yield order[start : start + size].tolist()
        start += size
