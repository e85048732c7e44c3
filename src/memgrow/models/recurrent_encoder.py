"""The paper's encoder: word vectors, one or more recurrent columns with memory, and pooling."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from memgrow.data.batches import Encoded, by_length, collate, token_mask
from memgrow.models.columns import Columns, State, grow_by, run_columns
from memgrow.models.encoder import ENCODERS, ROUTED_TEXTS, SPREAD, Encoder, ModelSettings, segments_of
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.nn import LAYERS, Growth, MemoryBank, MemoryRecurrent
from memgrow.nn.routing import DomainRouter, grouped

OPERATIONS = 150_000  # numbers that are read in the time that the operations of a step take, however small


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
        self.router = DomainRouter(settings.embedding) if settings.domains_read else None
        if settings.slots:
            self._grow_router(1)

    @property
    def vocabulary_size(self) -> int:
        return self.embedding.num_embeddings

    @property
    def word_vectors(self) -> nn.Embedding:
        return self.embedding

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        if self._routes:
            return self._forward_routed(packed, self._chosen(words, lengths), lengths)
        seen, pooled = self.dropout(self.embedding(packed.data)), []
        for column in self.columns:
            output, final = column(packed._replace(data=seen))
            pooled.append(self._pool(output, final))
            seen = torch.cat((seen, output.data), dim=-1)
        return torch.cat(pooled, dim=-1)

    @property
    def read_in_part(self) -> Sequence[MemoryBank]:
        return self.banks if self._routes else ()

    @property
    def _routes(self) -> bool:
        """Whether a text reads the slots of some domains alone."""
        return self.router is not None and len(self.newest.banks[0].segments) > self.settings.domains_read

    def _forward_routed(self, packed: PackedSequence, chosen: Tensor, lengths: Tensor) -> Tensor:
        """The same where each text reads the slots of the chosen domains (R, count)."""
        packed = packed._replace(data=self.dropout(self.embedding(packed.data)))
        for bank in self.banks:
            bank.will_read(chosen)
        try:
            return self._read_routed(packed, chosen, lengths)
        finally:
            for bank in self.banks:
                bank.have_read()

    def _read_routed(self, packed: PackedSequence, chosen: Tensor, lengths: Tensor) -> Tensor:
        choices = set(map(tuple, chosen.tolist()))
        if len(choices) == 1:
            return self._pool(*self.newest(packed, segments=chosen[0].tolist()))
        if self.newest.reads_stretches(chosen) or self._batches_rows(packed, len(chosen), len(choices)):
            return self._pool(*self.newest(packed, segments=chosen))
        groups = _grouped(chosen)
        padded, _ = pad_packed_sequence(packed, batch_first=True)
        pooled = []
        for segments, rows in groups:
            some = pack_padded_sequence(padded[rows], lengths.cpu()[rows], batch_first=True, enforce_sorted=False)
            pooled.append(self._pool(*self.newest(some, segments=segments)))
        return torch.cat(pooled)[torch.cat([rows for _, rows in groups]).argsort().to(padded.device)]

    def _batches_rows(self, packed: PackedSequence, rows: int, groups: int) -> bool:
        """Whether each text has a copy of its slots and all are read at once, and not those of the same domains.

        By the numbers that a step takes from memory: the slots of each row, or slots and weights of each group.
        """
        if packed.data.device.type != "cpu":  # a GPU's kernels read the same slots for all rows
            return False
        bank, weights = self.newest.banks[0], self.newest.weights(0, 0)
        slots = self.settings.domains_read * (bank.keys.numel() + bank.values.numel()) // len(bank.segments)
        return rows * slots <= groups * (slots + weights.ih.numel() + weights.hh.numel() + OPERATIONS)

    @torch.no_grad()
    def _chosen(self, words: Tensor, lengths: Tensor) -> Tensor:
        """The numbers of the segments that each text (R, T) reads, in order: (R, count)."""
        assert self.router is not None
        among = range(len(self.newest.banks[0].segments))
        chosen = self.router.choose(self._mean_vectors(words, lengths), among, self.settings.domains_read)
        return (chosen.sort(1).values if chosen.shape[1] > 1 else chosen).cpu()

    def _mean_vectors(self, words: Tensor, lengths: Tensor) -> Tensor:
        """The mean of each text's word vectors, (R, embedding)."""
        there = token_mask(words, lengths)
        vectors: Tensor = self.embedding(words) * there.unsqueeze(-1)
        return vectors.sum(1) / there.sum(1, keepdim=True)

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
        packed = self._embedded(words, lengths)
        if not self._routes:
            return self.attention(packed)
        padded, _ = pad_packed_sequence(packed, batch_first=True)
        chosen = self._chosen(words, lengths)
        answers = [padded.new_zeros(*padded.shape[:2], len(bank)) for bank in self.banks]
        for segments, rows in _grouped(chosen):
            some = pack_padded_sequence(padded[rows], lengths[rows], batch_first=True, enforce_sorted=False)
            for answer, weights in zip(answers, self.attention(some, segments=segments), strict=True):
                answer[rows.to(weights.device), : weights.shape[1]] = weights
        return answers

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
        quiet: float = 0.0,
        words: Tensor | None = None,
    ) -> None:
        self.newest.plan(growth, slots=slots, hidden=hidden, domain=domain, quiet=quiet)
        if slots and self.router is not None:
            self.router.plan(growth)
        self._plan_words(growth, words)

    def start_slots(self, domain: str, data: Encoded) -> None:
        self.note_texts(data)

    @torch.no_grad()
    def note_texts(self, data: Encoded) -> None:
        """Let the router, if there is one, take note of the texts that the newest slots are for."""
        if self.router is None:
            return
        some, vectors = data.some(range(0, len(data), 1 + len(data) // ROUTED_TEXTS)), []
        for indices in by_length(some, 32):
            batch = collate(some, indices, self.router.means.device)
            vectors.append(self._mean_vectors(batch.words, batch.lengths))
        self.router.fit(len(self.router.means) - 1, torch.cat(vectors))

    def _grow_router(self, segments: int) -> None:
        if self.router is not None and segments:
            growth = Growth()
            self.router.plan(growth, segments)
            growth.commit()

    def shape(self) -> dict[str, Any]:
        columns = [{"hidden": column.hidden_size, "slots": segments_of(column.banks[0])} for column in self.columns]
        return {"words": self.vocabulary_size, "columns": columns}

    @classmethod
    def rebuild(cls, settings: ModelSettings, shape: Mapping[str, Any], files: EncoderFiles | None = None) -> Self:
        sized = replace(settings, slot_size=settings.hidden if settings.slot_size is None else settings.slot_size)
        first, *further = shape["columns"]
        new = cls(replace(sized, hidden=first["hidden"], slots=0), shape["words"])
        grow_by(new.newest, first["slots"])
        new._grow_router(len(first["slots"]))
        for column in further:
            new.add_column(column["hidden"])
            grow_by(new.newest, column["slots"])
        new.settings = settings
        return new


def _grouped(chosen: Tensor) -> list[tuple[tuple[int, ...], Tensor]]:
    """Which rows of choices (R, count) are the same, each time with that choice."""
    each, group = torch.unique(chosen, dim=0, return_inverse=True)
    order, groups = grouped(group)
    parts = torch.split(order, [count for _, count in groups])
    return [(tuple(each[n].tolist()), rows) for (n, _), rows in zip(groups, parts, strict=True)]


ENCODERS |= dict.fromkeys(LAYERS, RecurrentEncoder)
