"""Batches of sequences in the form that the recurrence wants, and back in the form that the caller has."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


class Packed(NamedTuple):
    """A batch of sequences as the recurrence wants it, and how to give the answer back in the caller's form."""

    data: Tensor  # (sum of batch_sizes, features)
    batch_sizes: list[int]
    source: Tensor | PackedSequence


def like(data: Tensor, packed: Packed, batch_first: bool) -> Tensor | PackedSequence:
    """Packed rows in the form of the input they came from."""
    source = packed.source
    if isinstance(source, PackedSequence):
        return PackedSequence(data, source.batch_sizes, source.sorted_indices, source.unsorted_indices)
    if source.ndim == 2:
        return data
    steps = data.view(len(packed.batch_sizes), -1, data.shape[-1])
    return steps.transpose(0, 1) if batch_first else steps


def previous(states: Tensor, first: Tensor, batch_sizes: Sequence[int], reverse: bool) -> Tensor:
    """The state that each step started from, packed like `states` (the states it ended with)."""
    steps = torch.split(states, list(batch_sizes))
    if not reverse:
        before = [first, *steps[:-1]]
        return torch.cat([s[:size] for s, size in zip(before, batch_sizes, strict=True)])
    after = [*steps[1:], first[:0]]
    pairs = zip(after, batch_sizes, strict=True)
    return torch.cat([torch.cat((s, first[len(s) : size])) for s, size in pairs])
