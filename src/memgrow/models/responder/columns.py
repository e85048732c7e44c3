"""Columns side by side: each reads the input and the states of all columns before it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from memgrow.nn import MemoryRecurrent

State = tuple[Tensor, ...]
"""Of one column: (h,) or, for an LSTM, (h, c), each (layers * directions, B, H)."""


def walk(
    columns: Sequence[MemoryRecurrent], packed: PackedSequence, first: Sequence[State] | None = None
) -> tuple[Tensor, list[State]]:
    """The states of all columns at each packed step, side by side (rows, S), and the last state of each column."""
    seen, lasts = packed.data, []
    for number, column in enumerate(columns):
        output, last = column(packed._replace(data=seen), None if first is None else first[number])
        seen = torch.cat((seen, output.data), dim=-1)
        lasts.append(_as_state(last))
    return seen[:, packed.data.shape[1] :], lasts


def _as_state(last: Any) -> State:
    return last if isinstance(last, tuple) else (last,)
