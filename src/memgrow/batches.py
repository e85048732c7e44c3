"""From examples to tensors: word indices once, then batches of texts of similar length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memgrow.data import Example
from memgrow.text import Vocabulary, tokenise

UNKNOWN = ""  # no text has this word, so it never joins a vocabulary
POOL = (
    50  # batches whose examples are sorted by length together: enough for little padding, small enough to stay random
)


@dataclass(frozen=True)
class Worded:
    """Examples as words."""

    texts: Sequence[tuple[list[str], ...]]
    labels: Sequence[str | None]
    cut: int  # texts that were longer than allowed

    def sentences(self) -> Iterator[list[str]]:
        return (text for texts in self.texts for text in texts)


@dataclass(frozen=True)
class Encoded:
    """Examples as word indices, and labels as numbers (-1 where there is none)."""

    texts: Sequence[tuple[list[int], ...]]
    labels: Sequence[int]

    def __len__(self) -> int:
        return len(self.texts)

    def work(self, index: int) -> int:
        """What an example costs: the words of its longest text."""
        return max(map(len, self.texts[index]))

    def some(self, indices: Sequence[int]) -> "Encoded":
        return Encoded([self.texts[index] for index in indices], [self.labels[index] for index in indices])


@dataclass(frozen=True)
class Batch:
    """Rows are texts: all first ones of the batch, then all second ones."""

    words: Tensor  # (B * texts, T), 0 behind the end of a text
    lengths: Tensor  # (B * texts), on the CPU
    labels: Tensor  # (B)


def split_words(examples: Sequence[Example], max_words: int) -> Worded:
    """Of a text longer than `max_words` the beginning is read; one without any word is read as an unknown word."""
    texts, cut = [], 0
    for example in examples:
        words = [tokenise(text) for text in example.texts]
        cut += sum(len(text) > max_words for text in words)
        texts.append(tuple(text[:max_words] or [UNKNOWN] for text in words))
    return Worded(texts, [example.label for example in examples], cut)


def encode(worded: Worded, vocabulary: Vocabulary, labels: Sequence[str] = ()) -> Encoded:
    numbers: dict[str | None, int] = {label: number for number, label in enumerate(labels)}
    texts = [tuple(vocabulary.encode(text) for text in texts) for texts in worded.texts]
    return Encoded(texts, [numbers.get(label, -1) for label in worded.labels])


def collate(encoded: Encoded, indices: Sequence[int], device: torch.device) -> Batch:
    chosen = [encoded.texts[index] for index in indices]
    rows = [text for texts in zip(*chosen, strict=True) for text in texts]
    lengths = torch.tensor([len(row) for row in rows])
    words = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for number, row in enumerate(rows):
        words[number, : len(row)] = torch.tensor(row)
    labels = torch.tensor([encoded.labels[index] for index in indices])
    return Batch(words.to(device), lengths, labels.to(device))


def shuffled(encoded: Encoded, size: int, seed: int) -> list[list[int]]:
    """The batches of one epoch: every example once, similar lengths together, in an order that the seed decides."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(encoded), generator=generator).tolist()
    batches = []
    for start in range(0, len(order), size * POOL):
        pool = sorted(order[start : start + size * POOL], key=encoded.work)
        batches += [pool[at : at + size] for at in range(0, len(pool), size)]
    return [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]


def by_length(encoded: Encoded, size: int) -> Iterator[list[int]]:
    """All examples in batches from short to long, for prediction."""
    order = sorted(range(len(encoded)), key=encoded.work)
    for start in range(0, len(order), size):
        yield order[start : start + size]
