"""Recurrent layers as columns of a network, each reading all before it: encoder and decoder are made of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from memgrow.models.encoder import ModelSettings
from memgrow.nn import LAYERS, MemoryBank, MemoryRecurrent
from memgrow.nn.growth import Layout

State = tuple[Tensor, ...]
"""Of one column: (h,) or, for an LSTM, (h, c), each (layers * directions, B, H)."""


def run_columns(
    columns: Sequence[MemoryRecurrent], packed: PackedSequence, first: Sequence[State] | None = None
) -> tuple[Tensor, list[State]]:
    """The states of all columns at each packed step, side by side (rows, S), and the last state of each column."""
    seen, lasts = packed.data, []
    for number, column in enumerate(columns):
        output, last = column(packed._replace(data=seen), None if first is None else first[number])
        seen = torch.cat((seen, output.data), dim=-1)
        lasts.append(last if isinstance(last, tuple) else (last,))
    return seen[:, packed.data.shape[1] :], lasts


class Columns(nn.Module):
    """Recurrent layers of which each reads word vectors and the states of all before it.

    There is one unless the network is progressive. Columns of any size have slots of one size, so that a shape says all
    there is to know about them.
    """

    settings: ModelSettings
    bidirectional: bool
    columns: list[MemoryRecurrent]

    def add_column(self, hidden: int, slots: int = 0, domain: str | None = None) -> None:
        """Add a column that reads those that are there."""
        settings = self.settings
        slot_size = settings.hidden if settings.slot_size is None else settings.slot_size
        column = LAYERS[settings.cell](
            settings.embedding + sum(self.sizes),
            hidden,
            slots=slots,
            slot_size=slot_size,
            num_layers=settings.layers,
            dropout=settings.dropout,
            bidirectional=self.bidirectional,
            domain=domain,
            cuda_graphs=False,  # lengths differ from batch to batch; where they do not, whole steps are recorded
        )
        self.columns.append(column.to(next(self.parameters()).device))

    @property
    def newest(self) -> MemoryRecurrent:
        return self.columns[-1]

    @property
    def banks(self) -> Sequence[MemoryBank]:
        return self.newest.banks

    @property
    def sizes(self) -> list[int]:
        """The length of each column's part of a text's vector."""
        return [column.hidden_size * column.num_directions for column in self.columns]

    @property
    def hidden_units(self) -> list[int]:
        return [column.hidden_size for column in self.columns]

    def newest_parameters(self) -> Iterable[nn.Parameter]:
        return self.newest.parameters()

    def layout(self, hidden: int) -> Layout:
        """The layout of the states of all columns when the newest one grows by `hidden` units."""
        return [
            (column.hidden_size, hidden if column is self.newest else 0)
            for column in self.columns
            for _ in range(column.num_directions)
        ]

    def shares(self, packed: PackedSequence, first: Sequence[State] | None = None) -> list[dict[str, Tensor]]:
        """For each bank of the newest column: the share of attention that each domain's slots get, (B, steps) each."""
        weights = self.attention(packed, first)
        return [bank.share(each) for bank, each in zip(self.newest.banks, weights, strict=True)]

    def attention(self, packed: PackedSequence, first: Sequence[State] | None = None) -> list[Tensor]:
        """For each bank of the newest column: the weight of every slot at every step, (B, steps, slots)."""
        earlier, _ = run_columns(self.columns[:-1], packed, first)
        seen = packed._replace(data=torch.cat((packed.data, earlier), dim=-1))
        weights = self.newest.reading(seen, None if first is None else first[-1])
        return [pad_packed_sequence(each, batch_first=True)[0] for each in weights]


def grow_by(column: MemoryRecurrent, segments: Iterable[Mapping[str, Any]]) -> None:
    """Give a column the slots that a shape tells of."""
    every = [(one["domain"], one["count"], bool(one["quiet"])) for one in segments]
    for domain, count, quiet in every[:1]:  # it brings the weights that read slots
        column.grow(slots=count, domain=domain, initial_logit_bias=-float(quiet))
    for bank in column.banks:
        bank.restore(every[1:], torch.empty)
