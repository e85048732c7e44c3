"""All examples on the device, so that a batch of a stack is an index away and nothing is copied while training."""

import copy
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from memgrow.data.batches import Encoded, by_length
from memgrow.text import UNKNOWN_INDEX

GRAINS = ((32, 2), (64, 4), (128, 16))  # up to this many words, lengths are rounded up to a multiple of the other
COARSE = 64  # and beyond, to a multiple of this: so that few lengths differ
LARGE = 256  # examples in a batch where no gradient is needed
USUAL = 48  # words: of longer texts fewer are taken at once


class StackBatch(NamedTuple):
    """A batch for each model of a stack."""

    words: Tensor  # (T, R, K), texts: all first ones, then all second ones
    lengths: Tensor  # (R, K)
    labels: Tensor  # (K, B)


class DeviceData:
    """Examples as tensors on a device. `up` rounds the length of a batch up, so that few lengths differ."""

    def __init__(self, data: Encoded, device: torch.device, up: Callable[[int], int] | None = None) -> None:
        self.data, self.up = data, up or rounded
        sizes = np.array([[len(text) for text in example] for example in data.texts])  # (examples, texts)
        inside = np.arange(self.up(int(sizes.max()))) < sizes[..., None]
        words = np.zeros(inside.shape, dtype=np.int32)
        every = chain.from_iterable(text for example in data.texts for text in example)
        words[inside] = np.fromiter(every, dtype=np.int32, count=int(sizes.sum()))
        lengths = torch.from_numpy(sizes)
        self.words, self.lengths = torch.from_numpy(words).to(device), lengths.to(device)
        self.labels = torch.tensor(data.labels, device=device)
        self.longest = lengths.amax(1)  # on the CPU: decides how many steps a batch takes

    def as_known_to(self, words: int) -> "DeviceData":
        """The examples as a model sees them that knows the first `words` words alone."""
        new = copy.copy(self)
        new.words = torch.where(self.words < words, self.words, UNKNOWN_INDEX)
        return new

    def steps(self, numbers: Tensor) -> int:
        """The number of steps that a batch of these examples takes."""
        return self.up(int(self.longest[numbers].max()))

    def take(self, numbers: Tensor, steps: int) -> StackBatch:
        """The examples of those numbers (K, B), on the device."""
        words = self.words[numbers, :, :steps].permute(3, 2, 1, 0).flatten(1, 2)  # (T, texts * B, K)
        return StackBatch(words.long(), self.lengths[numbers].permute(2, 1, 0).flatten(0, 1), self.labels[numbers])

    def rows(self, examples: int, steps: int) -> int:
        """The number of a batch's examples to take at once, so that long texts need no more memory than usual ones."""
        return max(1, examples * USUAL // max(USUAL, steps))

    def in_batches(self, models: int) -> list[tuple[list[int], Tensor, int]]:
        """All examples from short to long, the same for every model: their numbers, also (K, B), and the steps."""
        batches = []
        for indices in by_length(self.data, evenly(len(self.data), LARGE)):
            size = evenly(len(indices), self.rows(LARGE, self.steps(torch.tensor(indices))))
            for start in range(0, len(indices), size):
                some = indices[start : start + size]
                numbers = torch.tensor(some)
                batches.append((some, numbers.to(self.words.device).expand(models, -1), self.steps(numbers)))
        return batches


def evenly(count: int, most: int) -> int:
    """The number to take at a time, so that no time has much fewer than the others."""
    return max(1, -(-count // max(1, -(-count // most))))


def rounded(length: int, grains: Sequence[tuple[int, int]] = GRAINS) -> int:
    """The length that a batch is padded to, so that few lengths differ."""
    step = next((grain for limit, grain in grains if length <= limit), COARSE)
    return -(-length // step) * step


def epoch_of(orders: Sequence[Sequence[Sequence[int]]]) -> list[Tensor]:
    """The batches of all models, (K, B) each, from those of each model, on the CPU."""
    return [torch.tensor(together) for together in zip(*orders, strict=True)]
