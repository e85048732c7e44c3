"""A sequence-to-sequence responder: a message in, a reply out, memory banks on both sides.

The encoder reads the message, and the decoder (`reply_decoder`) starts from its last state. In training the decoder
reads the words of the known reply (teacher forcing); in use it reads its own (`decoding`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from memgrow.data.batches import Batch, Encoded, by_length, collate
from memgrow.errors import SettingsError
from memgrow.models.columns import run_columns
from memgrow.models.encoder import Encoder
from memgrow.models.model import LARGE, Model, StepOutput, Tally
from memgrow.models.recurrent_encoder import Message, RecurrentEncoder
from memgrow.models.reply_decoder import END, Head, ReplyDecoder
from memgrow.nn import Growth, MemoryBank


class TeacherForced(NamedTuple):
    """Known replies as the decoder is trained on them: of n words, n + 1 steps.

    The inputs are the start and the words, the targets the words and the end.
    """

    inputs: PackedSequence  # of word indices (rows); in the rows of the first step there is no word
    targets: Tensor  # (rows)
    positions: Tensor  # (rows): where in (B, L + 1), flattened, each row stands
    shape: tuple[int, int]  # (B, L + 1)

    def spread(self, rows: Tensor) -> Tensor:
        """Packed rows (rows, ...) as (B, L + 1, ...), with zeros after the end of a reply."""
        flat = rows.new_zeros(self.shape[0] * self.shape[1], *rows.shape[1:])
        return flat.index_copy(0, self.positions, rows).view(*self.shape, *rows.shape[1:])

    def gather(self, spread: Tensor) -> Tensor:
        """The opposite of `spread`."""
        return spread.flatten(0, 1).index_select(0, self.positions)


def teacher_forced(replies: Tensor, lengths: Tensor) -> TeacherForced:
    """Word indices (B, L) and lengths (B, 0 or more); what stands after the end of a reply is never looked at."""
    replies, ends = replies[:, : int(lengths.max())], lengths.to(replies.device).unsqueeze(1)
    inputs = F.pad(replies, (1, 0))
    targets = F.pad(replies, (0, 1)).scatter(1, ends, END)
    positions = torch.arange(inputs.numel(), device=inputs.device).view_as(inputs)
    packed = pack_padded_sequence(positions, lengths.cpu() + 1, batch_first=True, enforce_sorted=False)
    at = packed.data
    return TeacherForced(
        packed._replace(data=inputs.flatten()[at]), targets.flatten()[at], at, (inputs.shape[0], inputs.shape[1])
    )


@dataclass(frozen=True)
class ReplyLoss:
    """-log p of what was to be said. A token is a word or the end; an unknown word counts as the class "unknown"."""

    total: Tensor  # over all tokens; gradients go through this one
    tokens: Tensor  # (B, L + 1): of each token, 0 after the end; no gradients
    count: int  # of tokens

    @property
    def mean(self) -> Tensor:
        return self.total / self.count


class Shares(NamedTuple):
    """For each bank of the newest columns: the share of attention that each domain's slots get."""

    encoder: list[dict[str, Tensor]]  # (B, T) each: at each word of the message, 0 after its end
    decoder: list[dict[str, Tensor]]  # (B, L + 1) each: when each word of the reply is to be said, and the end


class Responder(Model):
    """Encoder and decoder share the words' vectors; the decoder starts from the encoder's last state."""

    encoder: RecurrentEncoder
    fisher = "empirical"  # there is no end of replies to take an expectation over

    def __init__(self, encoder: Encoder, labels: int = 0) -> None:
        nn.Module.__init__(self)
        if not isinstance(encoder, RecurrentEncoder):
            raise SettingsError(
                f"a reply is written by a recurrent network that starts from the encoder's last state, which "
                f"{encoder.settings.cell!r} has not: set cell to lstm, gru or rnn"
            )
        self.encoder = encoder
        self.decoder = ReplyDecoder(encoder.settings, encoder.shape()["columns"])
        self.dropout = nn.Dropout(encoder.settings.dropout)
        self.heads = nn.ModuleList(self._new_head(count + 1) for count in range(len(encoder.sizes)))

    def forward(self, words: Tensor, lengths: Tensor, replies: Tensor, reply_lengths: Tensor) -> ReplyLoss:
        """The loss of replies (B, L), of 0 or more words each, to messages (B, T)."""
        known = teacher_forced(replies, reply_lengths)
        vectors = self.encoder.embedding.weight
        total, each = self.heads[-1].output.loss(self.rows(words, lengths, known), known.targets, vectors)
        return ReplyLoss(total, known.spread(each), len(known.targets))

    def training_step(self, batch: Batch) -> StepOutput:
        found = self._loss(batch)
        padding = found.tokens.numel() - found.count  # after the ends, where exp(-0) is no probability
        right = found.tokens.neg().exp().sum() - padding
        return StepOutput(found.mean, None, found.total.detach(), right, found.count)

    def likelihoods(self, batch: Batch, variant: str) -> list[tuple[Tensor, float]]:
        return [(-self._loss(batch).total, 1.0)]

    @torch.no_grad()
    def score(self, data: Encoded) -> float:
        """The geometric mean of the probabilities of all words and ends: 1 / perplexity."""
        self.eval()
        total, count = 0.0, 0
        for indices in by_length(data, LARGE):
            found = self._loss(collate(data, indices, self.device))
            total, count = total + float(found.total), count + found.count
        return math.exp(-total / count)

    @torch.no_grad()
    def tally(self, data: Encoded) -> Tally:
        self.eval()
        sums, counts = torch.zeros(2, len(data), dtype=torch.double)
        for indices in by_length(data, LARGE):
            batch = collate(data, indices, self.device)
            sums[indices] = -self._loss(batch).tokens.double().sum(1).cpu()
            counts[indices] = batch.lengths.chunk(2)[1].double() + 1
        return Tally(sums, counts, logarithmic=True)

    def _loss(self, batch: Batch) -> ReplyLoss:
        (words, replies), (lengths, ends) = batch.words.chunk(2), batch.lengths.chunk(2)
        found: ReplyLoss = self(words, lengths, replies, ends)
        return found

    def rows(self, words: Tensor, lengths: Tensor, known: TeacherForced) -> Tensor:
        """The input of the output layer at each step of known replies (rows, size)."""
        message, first = self.encoder.read(words, lengths)
        states, _ = run_columns(self.decoder.columns, self._inputs(known), first)
        reading = self.heads[-1].reading
        found = known.gather(reading(known.spread(states), message))
        return cast(Tensor, self.dropout(reading.combine(states, found)))

    def scores(self, states: Tensor, message: Message) -> Tensor:
        """The scores of every word and the end (B, L, words), for decoder states (B, L, D)."""
        head = self.heads[-1]
        rows = head.reading.combine(states, head.reading(states, message))
        return cast(Tensor, head.output(self.dropout(rows), self.encoder.embedding.weight))

    def reading(self, words: Tensor, lengths: Tensor, replies: Tensor, reply_lengths: Tensor) -> Shares:
        """The shares of attention of each domain's slots, for messages and their replies."""
        _, first = self.encoder.read(words, lengths)
        decoder = self.decoder.shares(self._inputs(teacher_forced(replies, reply_lengths)), first)
        return Shares(self.encoder.reading(words, lengths), decoder)

    def slot_weights(self, words: Tensor, lengths: Tensor, replies: Tensor, reply_lengths: Tensor) -> list[Tensor]:
        """For each of `banks`: the weight of every slot for messages and their replies, (B, steps, slots)."""
        _, first = self.encoder.read(words, lengths)
        decoder = self.decoder.attention(self._inputs(teacher_forced(replies, reply_lengths)), first)
        return [*self.encoder.slot_weights(words, lengths), *decoder]

    def _plan(
        self,
        growth: Growth,
        *,
        slots: int,
        hidden: int,
        domain: str | None,
        initial_logit_bias: float,
        words: int,
        labels: int,
    ) -> None:
        if labels:
            raise SettingsError("a model of replies has no labels that more could join: start a model for labels")
        self.decoder.newest.plan(
            growth, slots=slots, hidden=hidden, domain=domain, initial_logit_bias=initial_logit_bias
        )
        for head in self.heads:  # all speak of the same words
            head.output.plan_words(growth, words)
        self.heads[-1].plan(growth, self.encoder.layout(hidden), self.decoder.layout(hidden), hidden)

    def _widen(self, hidden: int, slots: int, domain: str | None) -> None:
        self.encoder.add_column(hidden, slots, domain)
        self.decoder.add_column(hidden, slots, domain)
        self.heads.append(self._new_head(len(self.encoder.sizes)))

    @property
    def banks(self) -> Sequence[MemoryBank]:
        return [*self.encoder.banks, *self.decoder.banks]

    def newest_parameters(self) -> list[nn.Parameter]:
        parts = (self.encoder.newest, self.decoder.newest, self.heads[-1])
        return [parameter for part in parts for parameter in part.parameters()]

    @property
    def scores_by_vectors(self) -> bool:
        return self.settings.tied

    def _inputs(self, known: TeacherForced) -> PackedSequence:
        """The vectors that the decoder reads; the rows of the first step are the first ones."""
        count, inputs = known.shape[0], known.inputs
        start = self.decoder.start.expand(count, -1)
        vectors = torch.cat((start, self.encoder.embedding(inputs.data[count:])))
        return inputs._replace(data=self.encoder.dropout(vectors))

    def _new_head(self, columns: int) -> Head:
        """A head that reads the first columns of both sides."""
        sizes = (sum(self.encoder.sizes[:columns]), sum(self.decoder.sizes[:columns]))
        tied = self.settings.embedding if self.settings.tied else None
        hidden = self.decoder.columns[columns - 1].hidden_size
        return Head(*sizes, hidden, self.vocabulary_size, tied).to(self.device)
