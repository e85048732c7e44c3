"""From examples to tensors: tokens, their indices once, then batches of texts of similar length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from memgrow.data import Example
from memgrow.text import UNKNOWN_INDEX, Vocabulary, tokenise

UNKNOWN = ""  # no text has this word, so it never joins a vocabulary


@dataclass(frozen=True)
class Tokenized:
    """Examples as tokens, which are words unless an encoder has a tokenizer of its own."""

    texts: Sequence[tuple[list[Any], ...]]  # words or, if they are numbered, their numbers
    labels: Sequence[str | None]
    cut: int  # texts that were longer than allowed
    answered: bool = False  # whether the last text of each is a reply
    numbered: bool = False  # by an encoder that has a vocabulary of its own

    @property
    def documents(self) -> Sequence[tuple[list[str], ...]]:
        """The examples whose words may join a vocabulary."""
        return () if self.numbered else self.texts


@dataclass(frozen=True)
class Encoded:
    """Examples as word indices, and labels as numbers (-1 where there is none)."""

    texts: Sequence[tuple[list[int], ...]]
    labels: Sequence[int]
    answered: bool = False  # whether the last text of each is a reply

    def __len__(self) -> int:
        return len(self.texts)

    def length(self, index: int) -> int:
        """The words of an example's longest text: what it costs."""
        return max(map(len, self.texts[index]))

    def bucket_key(self, index: int) -> tuple[int, int]:
        """The key that batches are bucketed by: near keys make a batch with few steps and little padding.

        Two texts are read side by side, and the longer one counts. A reply is read after its message: there both
        count, first the message's length in bands that are wider for long ones, as there are fewer of these.
        """
        if not self.answered:
            return self.length(index), 0
        message, reply = self.texts[index]
        return isqrt(4 * len(message)), len(reply)

    def as_known_to(self, words: int) -> "Encoded":
        """The examples as a model sees them that knows the first `words` words alone: others are unknown to it."""
        texts = [tuple([w if w < words else UNKNOWN_INDEX for w in text] for text in texts) for texts in self.texts]
        return Encoded(texts, self.labels, self.answered)

    def some(self, indices: Sequence[int]) -> "Encoded":
        texts = [self.texts[index] for index in indices]
        return Encoded(texts, [self.labels[index] for index in indices], self.answered)


@dataclass(frozen=True)
class Batch:
    """Rows are texts: all first ones of the batch, then all second ones. A reply stands after its message."""

    words: Tensor  # (B * texts, T), 0 after the end of a text
    lengths: Tensor  # (B * texts), on the CPU
    labels: Tensor  # (B)
    examples: Tensor  # (B): their numbers in the data


def tokenize_examples(
    examples: Sequence[Example], max_words: int, tokenizer: Callable[[str], list[str]] = tokenise
) -> Tokenized:
    """Examples as tokens: at most the first `max_words` of a text; one without any word is an unknown word."""
    texts, cut = [], 0
    for example in examples:
        words = [tokenizer(text) for text in (*example.texts, *_reply(example))]
        cut += sum(len(text) > max_words for text in words)
        texts.append(tuple(text[:max_words] or [UNKNOWN] for text in words))
    answered = any(example.reply is not None for example in examples)
    return Tokenized(texts, [example.label for example in examples], cut, answered)


def _reply(example: Example) -> tuple[str, ...]:
    return () if example.reply is None else (example.reply,)


def encode(tokenized: Tokenized, vocabulary: Vocabulary, labels: Sequence[str] = ()) -> Encoded:
    numbers: dict[str | None, int] = {label: number for number, label in enumerate(labels)}
    texts = tokenized.texts
    if not tokenized.numbered:
        texts = [tuple(vocabulary.encode(text) for text in texts) for texts in tokenized.texts]
    return Encoded(texts, [numbers.get(label, -1) for label in tokenized.labels], tokenized.answered)


def collate(encoded: Encoded, indices: Sequence[int], device: torch.device) -> Batch:
    chosen = [encoded.texts[index] for index in indices]
    rows = [text for texts in zip(*chosen, strict=True) for text in texts]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    words = np.zeros((len(rows), lengths.max()), np.int64)
    there = np.arange(words.shape[1]) < lengths[:, None]
    words[there] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())  # a tensor for each row takes longer
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
    """The tensor on the device; nobody waits until a GPU has done what it was asked before."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def shuffled(encoded: Encoded, size: int, seed: int, turn: int) -> list[list[int]]:
    """The batches of one epoch: every example once, those of like length together.

    The seed decides who is together. In which order long and short ones come depends on the turn (the epoch) alone, so
    that models of different seeds, trained side by side, have batches of the same length at the same time.
    """
    order = torch.randperm(len(encoded), generator=torch.Generator().manual_seed(seed)).tolist()
    order.sort(key=encoded.bucket_key)  # those of one length stay in the order that was drawn
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    places = torch.randperm(len(batches), generator=torch.Generator().manual_seed(turn))
    return [batches[number] for number in places.tolist()]


def by_length(encoded: Encoded, size: int) -> Iterator[list[int]]:
    """All examples in batches from short to long, for prediction."""
    order = sorted(range(len(encoded)), key=encoded.bucket_key)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def by_tokens(encoded: Encoded, most: int) -> Iterator[list[int]]:
    """All examples in batches from long to short, of at most so many tokens with padding, or of one example."""
    order, start = sorted(range(len(encoded)), key=encoded.bucket_key, reverse=True), 0
    while start < len(order):
        first = order[start]
        size = max(1, most // (len(encoded.texts[first]) * max(1, encoded.length(first))))
        yield order[start : start + size]
        start += size
