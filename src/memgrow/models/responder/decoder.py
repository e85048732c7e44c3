"""The writer of replies: columns of the encoder's cell with banks of their own."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from memgrow.models.encoder import SPREAD
from memgrow.models.responder.columns import State, walk
from memgrow.models.settings import ModelSettings
from memgrow.nn import LAYERS, Growth, MemoryRecurrent
from memgrow.nn.growth import Layout


class ReplyDecoder(nn.Module):
    """Reads a reply's words from left to right, behind a vector of its own that stands for the start."""

    def __init__(self, settings: ModelSettings, domain: str | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.start = nn.Parameter(torch.randn(settings.embedding) * SPREAD)
        self.columns = cast(list[MemoryRecurrent], nn.ModuleList())
        self.columns.append(self.new_column(settings.hidden, settings.slots, domain))

    def new_column(self, hidden: int, slots: int, domain: str | None) -> MemoryRecurrent:
        """A column fit to stand behind those that are there."""
        settings = self.settings
        sizes = (settings.embedding + sum(self.sizes), hidden, slots, settings.slot_size, settings.layers)
        return LAYERS[settings.cell](*sizes, dropout=settings.dropout, domain=domain).to(self.start.device)

    @property
    def newest(self) -> MemoryRecurrent:
        return self.columns[-1]

    @property
    def sizes(self) -> list[int]:
        """How many numbers each column's state has."""
        return [column.hidden_size for column in self.columns]

    def reading(self, packed: PackedSequence, first: list[State]) -> list[dict[str, Tensor]]:
        """For each bank of the newest column: the share of attention that each domain's slots get, (B, steps) each."""
        earlier, _ = walk(self.columns[:-1], packed, first)
        seen = packed._replace(data=torch.cat((packed.data, earlier), dim=-1))
        shares = []
        for bank, weights in zip(self.newest.banks, self.newest.reading(seen, first[-1]), strict=True):
            padded, _ = pad_packed_sequence(weights, batch_first=True)
            shares.append(bank.share(padded))
        return shares

    def plan(
        self, growth: Growth, *, slots: int = 0, hidden: int = 0, domain: str | None = None, quiet: float = 0.0
    ) -> None:
        """Make new slots and units in the newest column part of a larger growth."""
        self.newest.plan(growth, slots=slots, hidden=hidden, domain=domain, quiet=quiet)

    def layout(self, hidden: int) -> Layout:
        """How the states are laid out when the newest column grows by `hidden` units."""
        return [(column.hidden_size, hidden if column is self.newest else 0) for column in self.columns]
