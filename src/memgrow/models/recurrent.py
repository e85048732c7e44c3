"""The paper's encoder: word vectors, one or more recurrent columns with memory, and pooling."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from memgrow.data.batches import token_mask
from memgrow.data.vectors import Vectors, read_vectors
from memgrow.errors import SettingsError
from memgrow.models.base import Encoder, ModelSettings
from memgrow.nn import LAYERS, Growth, MemoryBank, MemoryRecurrent
from memgrow.nn.bank import Layout

SPREAD = 0.4  # of a word vector's entries where no file gives them: about that of the usual 300-dimensional files

State = tuple[Tensor, ...]
"""Of one column: (h,) or, for an LSTM, (h, c), each (layers * directions, B, H)."""


class Columns(nn.Module):
    """Recurrent layers of which each reads word vectors and the states of all before it: one unless Progressive.

    Columns of any size have slots of one size, so that a shape says all there is to know about them.
    """

    columns: list[MemoryRecurrent]

    def __init__(self, settings: ModelSettings, *, bidirectional: bool) -> None:
        super().__init__()
        self.settings, self.bidirectional = settings, bidirectional

    def add_column(self, hidden: int, slots: int = 0, domain: str | None = None) -> None:
        """Add a column that reads those that are there."""
        settings = self.settings
        column = LAYERS[settings.cell](
            settings.embedding + sum(self.sizes),
            hidden,
            slots=slots,
            slot_size=settings.hidden if settings.slot_size is None else settings.slot_size,
            num_layers=settings.layers,
            dropout=settings.dropout,
            bidirectional=self.bidirectional,
            domain=domain,
            cuda_graphs=False,  # lengths differ from batch to batch
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
        return [column.hidden_size * column.num_directions for column in self.columns]

    @property
    def hidden_units(self) -> list[int]:
        return [column.hidden_size for column in self.columns]

    def layout(self, hidden: int) -> Layout:
        """The layout of the states of all columns when the newest one grows by `hidden` units."""
        return [
            (column.hidden_size, hidden if column is self.newest else 0)
            for column in self.columns
            for _ in range(column.num_directions)
        ]

    def bank_weights(self, packed: PackedSequence, first: Sequence[State] | None = None) -> list[Tensor]:
        """For each bank of the newest column: the weight of every slot at every step, (B, steps, slots)."""
        earlier, _ = run_columns(self.columns[:-1], packed, first)
        seen = packed._replace(data=torch.cat((packed.data, earlier), dim=-1))
        weights = self.newest.reading(seen, None if first is None else first[-1])
        return [pad_packed_sequence(each, batch_first=True)[0] for each in weights]

    def restore_columns(self, columns: Iterable[Mapping[str, Any]]) -> None:
        """Add columns of the units and slots that a shape names; numbers are to be filled in."""
        for column in columns:
            self.add_column(column["hidden"])
            segments = [(one["domain"], one["count"], bool(one["quiet"])) for one in column["slots"]]
            for domain, count, biased in segments[:1]:  # it brings the weights that read slots
                self.newest.grow(slots=count, domain=domain, initial_logit_bias=-float(biased))
            for bank in self.newest.banks:
                bank.restore(segments[1:], torch.empty)


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


class Message(NamedTuple):
    """An encoded batch of messages, for a decoder to attend to."""

    states: Tensor  # (B, T, S), 0 after the end of a message
    mask: Tensor  # (B, T): whether there is a word

    def select(self, rows: Tensor) -> "Message":
        return Message(self.states.index_select(0, rows), self.mask.index_select(0, rows))


class RecurrentEncoder(Columns, Encoder):
    """Word vectors, columns in one or both directions, and the mean of all states or the last of them."""

    def __init__(self, settings: ModelSettings, words: int, domain: str | None = None) -> None:
        """For a vocabulary of this many `words`, padding and unknown included; the first slots belong to `domain`."""
        self._build(settings, words)
        self.add_column(settings.hidden, settings.slots, domain)

    def _build(self, settings: ModelSettings, words: int) -> None:
        Columns.__init__(self, settings, bidirectional=settings.bidirectional)
        self.embedding = nn.Embedding(words, settings.embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=SPREAD)
        with torch.no_grad():
            self.embedding.weight[:2] = 0  # padding, and the unknown word before training
        self.dropout = nn.Dropout(settings.dropout)
        self.columns = cast(list[MemoryRecurrent], nn.ModuleList())

    @classmethod
    def rebuild(cls, settings: ModelSettings, shape: Mapping[str, Any]) -> Self:
        """An encoder of a shape, its weights to be filled in."""
        new = cls.__new__(cls)
        new._build(settings, shape["words"])
        new.restore_columns(shape["columns"])
        return new

    @property
    def vocabulary_size(self) -> int:
        return self.embedding.num_embeddings

    @property
    def word_vectors(self) -> nn.Embedding:
        return self.embedding

    def _embedded(self, words: Tensor, lengths: Tensor) -> PackedSequence:
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return packed._replace(data=self.dropout(self.embedding(packed.data)))

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        packed = self._embedded(words, lengths)
        rows, lasts = run_columns(self.columns, packed)
        if self.settings.pooling == "mean":
            states, counts = pad_packed_sequence(packed._replace(data=rows), batch_first=True)  # zeros after the ends
            return states.sum(1) / counts.to(states).unsqueeze(1)
        sides = self.newest.num_directions  # of states (layers * directions, R, H)
        return torch.cat([part for last in lasts for part in last[0][-sides:]], dim=-1)

    def read(self, words: Tensor, lengths: Tensor) -> tuple[Message, list[State]]:
        """The states of all columns at each word, and the state that each column's decoder starts from.

        That is the last state; of an encoder that reads in both directions, the mean of the two last states.
        """
        packed = self._embedded(words, lengths)
        rows, lasts = run_columns(self.columns, packed)
        states, _ = pad_packed_sequence(packed._replace(data=rows), batch_first=True)
        sides = self.newest.num_directions
        first = [tuple(part.reshape(-1, sides, *part.shape[1:]).mean(1) for part in last) for last in lasts]
        return Message(states, token_mask(states, lengths)), first

    def attention(self, words: Tensor, lengths: Tensor) -> list[Tensor]:
        return self.bank_weights(self._embedded(words, lengths))

    def plan(self, growth: Growth, *, hidden: int = 0, words: Tensor | None = None, **memory: Any) -> None:
        self.newest.plan(growth, hidden=hidden, **memory)
        if words is not None and len(words):
            total = self.vocabulary_size + len(words)
            growth.enlarge(self.embedding.weight, 0, [(self.vocabulary_size, len(words))], lambda _: words)
            growth.then(lambda: setattr(self.embedding, "num_embeddings", total))

    def shape(self) -> dict[str, Any]:
        columns = [{"hidden": column.hidden_size, "slots": _segments(column.banks[0])} for column in self.columns]
        return {"words": self.vocabulary_size, "columns": columns}


def _segments(bank: MemoryBank) -> list[dict[str, Any]]:
    """The slots of a bank by the domain that they were added for, as JSON; "quiet" is the files' word for biased."""
    return [{"domain": s.domain, "count": len(s), "quiet": s.biased} for s in bank.segments]


def first_vectors(words: Sequence[str], size: int, file: str | Path | None = None) -> tuple[Tensor, int]:
    """Rows (words, size), and how many of them come from the file.

    The others are drawn from a normal distribution with the spread of the file's rows, or 0.4 without a file.
    """
    if file is None or not words:
        return torch.randn(len(words), size) * SPREAD, 0
    vectors = _read(str(file), tuple(words))
    if vectors.size != size:
        raise SettingsError(f"the vectors of {file} have {vectors.size} numbers: this model needs {size}")
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
