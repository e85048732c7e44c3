"""The paper's encoder: word vectors, one or more recurrent columns with memory, and pooling."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from memgrow.models.columns import Columns, State, grow_by, run_columns
from memgrow.models.encoder import ENCODERS, SPREAD, Encoder, ModelSettings, segments_of
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.nn import LAYERS, Growth, MemoryRecurrent


class Message(NamedTuple):
    """An encoded batch of messages, for a decoder to attend to."""

    states: Tensor  # (B, T, S), 0 after the end of a message
    there: Tensor  # (B, T): whether there is a word

    def some(self, rows: Tensor) -> "Message":
        return Message(self.states.index_select(0, rows), self.there.index_select(0, rows))


class RecurrentEncoder(Columns, Encoder):
    """Word vectors, columns in one or both directions, and the mean of all states or the last of them."""

    grows = frozenset(("slots", "words", "hidden", "column"))

    def __init__(self, settings: ModelSettings, words: int, domain: str | None = None) -> None:
        Encoder.__init__(self, settings, words, domain)
        self.embedding = nn.Embedding(words, settings.embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=SPREAD)
        with torch.no_grad():
            self.embedding.weight[:2] = 0  # padding, and the unknown word until training says something of it
        self.dropout = nn.Dropout(settings.dropout)
        self.bidirectional = settings.bidirectional
        self.columns = cast(list[MemoryRecurrent], nn.ModuleList())
        self.add_column(settings.hidden, settings.slots, domain)

    @property
    def vocabulary_size(self) -> int:
        return self.embedding.num_embeddings

    @property
    def word_vectors(self) -> nn.Embedding:
        return self.embedding

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        seen, pooled = self.dropout(self.embedding(packed.data)), []
        for column in self.columns:
            output, final = column(packed._replace(data=seen))
            pooled.append(self._pool(output, final))
            seen = torch.cat((seen, output.data), dim=-1)
        return torch.cat(pooled, dim=-1)

    def _pool(self, output: PackedSequence, final: Any) -> Tensor:
        if self.settings.pooling == "mean":
            states, lengths = pad_packed_sequence(output, batch_first=True)  # zeros after each text's end
            return states.sum(1) / lengths.to(states).unsqueeze(1)
        last = final[0] if isinstance(final, tuple) else final  # (layers * directions, R, H)
        return torch.cat(tuple(last[-self.newest.num_directions :]), dim=-1)

    def read(self, words: Tensor, lengths: Tensor) -> tuple[Message, list[State]]:
        """The states of all columns at each word, and the state that each column's decoder starts from.

        That is the last state; of an encoder that reads in both directions, the mean of the two last states.
        """
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        embedded = self.dropout(self.embedding(packed.data))
        rows, lasts = run_columns(self.columns, packed._replace(data=embedded))
        states, _ = pad_packed_sequence(packed._replace(data=rows), batch_first=True)
        there = torch.arange(states.shape[1], device=states.device) < lengths.to(states.device).unsqueeze(1)
        sides = self.newest.num_directions
        first = [tuple(part.reshape(-1, sides, *part.shape[1:]).mean(1) for part in last) for last in lasts]
        return Message(states, there), first

    def reading(self, words: Tensor, lengths: Tensor) -> list[dict[str, Tensor]]:
        weights = self.slot_weights(words, lengths)
        return [bank.share(each) for bank, each in zip(self.banks, weights, strict=True)]

    def slot_weights(self, words: Tensor, lengths: Tensor) -> list[Tensor]:
        return self.attention(self._embedded(words, lengths))

    def _embedded(self, words: Tensor, lengths: Tensor) -> PackedSequence:
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return packed._replace(data=self.embedding(packed.data))

    def plan(
        self,
        growth: Growth,
        *,
        slots: int = 0,
        hidden: int = 0,
        domain: str | None = None,
        initial_logit_bias: float = 0.0,
        words: Tensor | None = None,
    ) -> None:
        self.newest.plan(growth, slots=slots, hidden=hidden, domain=domain, initial_logit_bias=initial_logit_bias)
        self._plan_words(growth, words)

    def shape(self) -> dict[str, Any]:
        columns = [{"hidden": column.hidden_size, "slots": segments_of(column.banks[0])} for column in self.columns]
        return {"words": self.vocabulary_size, "columns": columns}

    @classmethod
    def rebuild(cls, settings: ModelSettings, shape: Mapping[str, Any], files: EncoderFiles | None = None) -> Self:
        sized = replace(settings, slot_size=settings.hidden if settings.slot_size is None else settings.slot_size)
        first, *further = shape["columns"]
        new = cls(replace(sized, hidden=first["hidden"], slots=0), shape["words"])
        grow_by(new.newest, first["slots"])
        for column in further:
            new.add_column(column["hidden"])
            grow_by(new.newest, column["slots"])
        new.settings = settings
        return new


ENCODERS |= dict.fromkeys(LAYERS, RecurrentEncoder)
