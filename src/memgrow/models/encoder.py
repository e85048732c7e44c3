"""Sentences to vectors: word vectors, one or more recurrent columns with memory, and pooling."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from memgrow.errors import SettingsError
from memgrow.models.settings import ModelSettings
from memgrow.nn import LAYERS, Growth, MemoryRecurrent
from memgrow.nn.growth import Layout
from memgrow.text import Vectors, read_vectors


def first_vectors(words: Sequence[str], size: int, file: str | Path | None = None) -> tuple[Tensor, int]:
    """Rows (words, size), and how many of them come from the file.

    The others are drawn from a normal distribution with the spread of the file's rows, or 0.4 without a file.
    """
    if file is None or not words:
        return torch.randn(len(words), size) * SPREAD, 0
    vectors = _read(str(file), tuple(words))
    if vectors.size != size:
        raise SettingsError(
            f"the vectors of {file} have {vectors.size} numbers, but this model's words have {size}: "
            f"use vectors of {size}, or a model with embedding: {vectors.size}"
        )
    found = [index for index, word in enumerate(words) if word in vectors.rows]
    known = torch.from_numpy(np.stack([vectors.rows[words[index]] for index in found])) if found else None
    rows = torch.randn(len(words), size) * (SPREAD if known is None else float(known.std()))
    if known is not None:
        rows[found] = known
    return rows, len(found)


@lru_cache(maxsize=1)
def _read(file: str, words: tuple[str, ...]) -> Vectors:
    """Learners that differ in their seed ask for the same words of the same file, one after another."""
    return read_vectors(file, words)


SPREAD = 0.4  # of a word vector's entries where no file gives them: about that of the usual 300-dimensional files


class TextEncoder(nn.Module):
    """Reads word indices (R, T) and lengths (R); returns a vector for each row.

    There is one column unless the network is progressive: then a further column reads the word vectors and the
    states of all columns before it, and the vector is that of all columns together.
    """

    def __init__(self, settings: ModelSettings, words: int, domain: str | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.embedding = nn.Embedding(words, settings.embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=SPREAD)
        with torch.no_grad():
            self.embedding.weight[:2] = 0  # padding, and the unknown word until training says something of it
        self.dropout = nn.Dropout(settings.dropout)
        self.columns = cast(list[MemoryRecurrent], nn.ModuleList())
        self.columns.append(self.new_column(settings.hidden, settings.slots, domain))

    def new_column(self, hidden: int, slots: int, domain: str | None) -> MemoryRecurrent:
        """A column fit to stand behind those that are there."""
        settings = self.settings
        column = LAYERS[settings.cell](
            settings.embedding + sum(self.sizes),
            hidden,
            slots,
            settings.slot_size,
            settings.layers,
            dropout=settings.dropout,
            bidirectional=settings.bidirectional,
            domain=domain,
        )
        return column.to(self.embedding.weight.device)

    @property
    def newest(self) -> MemoryRecurrent:
        return self.columns[-1]

    @property
    def sizes(self) -> list[int]:
        """How many numbers each column contributes to a sentence's vector."""
        return [column.hidden_size * column.num_directions for column in self.columns]

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return self.encode(packed, self.embedding(packed.data))

    def encode(self, packed: PackedSequence, embedded: Tensor) -> Tensor:
        """Vectors (R, sum of sizes) of packed sentences whose word vectors are `embedded`."""
        seen, pooled = self.dropout(embedded), []
        for column in self.columns:
            output, final = column(packed._replace(data=seen))
            pooled.append(self._pool(output, final))
            seen = torch.cat((seen, output.data), dim=-1)
        return torch.cat(pooled, dim=-1)

    def reading(self, words: Tensor, lengths: Tensor) -> list[dict[str, Tensor]]:
        """For each bank of the newest column: the share of attention that each domain's slots get, (R, T) each."""
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        seen = self.embedding(packed.data)
        for column in self.columns[:-1]:
            seen = torch.cat((seen, column(packed._replace(data=seen))[0].data), dim=-1)
        shares = []
        for bank, weights in zip(self.newest.banks, self.newest.reading(packed._replace(data=seen)), strict=True):
            padded, _ = pad_packed_sequence(weights, batch_first=True)
            shares.append(bank.share(padded))
        return shares

    def plan(
        self,
        growth: Growth,
        *,
        slots: int = 0,
        hidden: int = 0,
        domain: str | None = None,
        quiet: float = 0.0,
        words: Tensor | None = None,
    ) -> None:
        """Make new slots and units in the newest column, and rows of new words, part of a larger growth."""
        self.newest.plan(growth, slots=slots, hidden=hidden, domain=domain, quiet=quiet)
        if words is not None and len(words):
            count = self.embedding.num_embeddings
            growth.enlarge(self.embedding.weight, 0, [(count, len(words))], lambda _: words)
            growth.then(lambda: setattr(self.embedding, "num_embeddings", count + len(words)))

    def layout(self, hidden: int) -> Layout:
        """How a sentence's vector is laid out when the newest column grows by `hidden` units."""
        return [
            (column.hidden_size, hidden if column is self.newest else 0)
            for column in self.columns
            for _ in range(column.num_directions)
        ]

    def _pool(self, output: PackedSequence, final: Any) -> Tensor:
        if self.settings.pooling == "mean":
            states, lengths = pad_packed_sequence(output, batch_first=True)  # zeros behind each sentence's end
            return states.sum(1) / lengths.to(states).unsqueeze(1)
        last = final[0] if isinstance(final, tuple) else final  # (layers * directions, R, H)
        return torch.cat(tuple(last[-self.newest.num_directions :]), dim=-1)
