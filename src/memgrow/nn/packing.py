"""Batches of sequences in the packed form that the recurrence wants, and results in the form that the caller has."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from memgrow.errors import SettingsError


class Packed(NamedTuple):
    """A batch of sequences as the recurrence wants it, and the input it came from."""

    data: Tensor  # (sum of batch_sizes, features)
    batch_sizes: list[int]
    source: Tensor | PackedSequence


def pack(input: Any, batch_first: bool) -> Packed:
    """Pack (T, B, F), (B, T, F) with `batch_first`, or (T, F); a PackedSequence stays as it is."""
    if isinstance(input, PackedSequence):
        data, sizes = input.data, input.batch_sizes.tolist()
    elif input.ndim in (2, 3):
        steps = input.unsqueeze(1) if input.ndim == 2 else input.transpose(0, 1) if batch_first else input
        data, sizes = steps.reshape(-1, steps.shape[-1]), [steps.shape[1]] * steps.shape[0]
    else:
        raise SettingsError(f"the input must have 2 or 3 dimensions or be packed, not {input.ndim} dimensions")
    if not sizes:
        raise SettingsError("the input has no steps: every sequence needs a length of at least 1")
    return Packed(data, sizes, input)


def like(data: Tensor, packed: Packed, batch_first: bool) -> Tensor | PackedSequence:
    """Packed rows in the form of the input they came from."""
    source = packed.source
    if isinstance(source, PackedSequence):
        return PackedSequence(data, source.batch_sizes, source.sorted_indices, source.unsorted_indices)
    if source.ndim == 2:
        return data
    steps = data.view(len(packed.batch_sizes), -1, data.shape[-1])
    return steps.transpose(0, 1) if batch_first else steps


def states_like(states: Tensor, packed: Packed) -> Tensor:
    """States (layers * directions, B, H) with rows in the caller's order, and without B where the input has none."""
    source = packed.source
    if isinstance(source, PackedSequence):
        return states if source.unsorted_indices is None else states.index_select(1, source.unsorted_indices)
    return states.squeeze(1) if source.ndim == 2 else states


def rows_packed(rows: Tensor, packed: Packed, dim: int = 0) -> Tensor:
    """What there is for each of the caller's sequences, in the order in which these are packed."""
    if isinstance(packed.source, PackedSequence) and packed.source.sorted_indices is not None:
        return rows.index_select(dim, packed.source.sorted_indices.to(rows.device))
    return rows


def previous(states: Tensor, first: Tensor, batch_sizes: Sequence[int], reverse: bool) -> Tensor:
    """The state that each step started from, packed like `states` (the states it ended with)."""
    steps = torch.split(states, list(batch_sizes))
    if not reverse:
        before = [first, *steps[:-1]]
        return torch.cat([s[:size] for s, size in zip(before, batch_sizes, strict=True)])
    after = [*steps[1:], first[:0]]
    pairs = zip(after, batch_sizes, strict=True)
    return torch.cat([torch.cat((s, first[len(s) : size])) for s, size in pairs])
