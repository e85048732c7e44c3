"""A sequence-to-sequence responder: a message in, a reply out, memory banks on both sides.

The decoder attends to the message after its recurrence, so that all steps of a known reply are computed at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from memgrow.data.batches import Batch, Encoded, by_length, collate
from memgrow.data.text import PADDING_INDEX
from memgrow.errors import SettingsError
from memgrow.models.base import INFERENCE_BATCH, Encoder, Model, ModelSettings, StepOutput, Tally
from memgrow.models.recurrent import SPREAD, Columns, Message, RecurrentEncoder, run_columns
from memgrow.nn import Growth, MemoryBank, MemoryRecurrent
from memgrow.nn.bank import Layout

END = PADDING_INDEX
"""No reply says padding, so its class is free to mean: the reply ends here. New words come after all others."""


class Responder(Model):
    """Encoder and decoder share the words' vectors; the decoder starts from the encoder's last state."""

    encoder: RecurrentEncoder
    only_fisher_variant = "empirical"  # there are too many replies to take an expectation over

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        if not isinstance(encoder, RecurrentEncoder):
            raise SettingsError("replies need a recurrent network: set cell to lstm, gru or rnn")
        self.encoder = encoder
        self.decoder = ReplyDecoder(encoder.settings, encoder.shape()["columns"])
        self.dropout = nn.Dropout(encoder.settings.dropout)
        self.heads = nn.ModuleList(self._new_head(count + 1) for count in range(len(encoder.sizes)))

    def forward(self, words: Tensor, lengths: Tensor, replies: Tensor, reply_lengths: Tensor) -> "ReplyLoss":
        """The loss of replies (B, L), of 0 or more words each, to messages (B, T)."""
        known = teacher_forced(replies, reply_lengths)
        scores = self.heads[-1].output(self.rows(words, lengths, known), self.encoder.embedding.weight)
        each = F.cross_entropy(scores, known.targets, reduction="none")
        return ReplyLoss(each.sum(), known.spread(each.detach()), len(known.targets))

    def training_step(self, batch: Batch) -> StepOutput:
        found = self._loss(batch)
        padding = found.tokens.numel() - found.count  # after the ends, where exp(-0) is no probability
        right = found.tokens.neg().exp().sum() - padding
        return StepOutput(found.total / found.count, None, found.total.detach(), right, found.count)

    def likelihoods(self, batch: Batch, variant: str) -> list[tuple[Tensor, float]]:
        return [(-self._loss(batch).total, 1.0)]

    @torch.no_grad()
    def tally(self, data: Encoded) -> Tally:
        self.eval()
        sums, counts = torch.zeros(2, len(data), dtype=torch.double)
        for indices in by_length(data, INFERENCE_BATCH):
            batch = collate(data, indices, self.device)
            sums[indices] = -self._loss(batch).tokens.double().sum(1).cpu()
            counts[indices] = batch.lengths.chunk(2)[1].double() + 1
        return Tally(sums, counts, logarithmic=True)

    def _loss(self, batch: Batch) -> "ReplyLoss":
        (words, replies), (lengths, ends) = batch.words.chunk(2), batch.lengths.chunk(2)
        found: ReplyLoss = self(words, lengths, replies, ends)
        return found

    def rows(self, words: Tensor, lengths: Tensor, known: "TeacherForced") -> Tensor:
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

    def attention(self, words: Tensor, lengths: Tensor, replies: Tensor, reply_lengths: Tensor) -> list[Tensor]:
        """For each of `banks`: the weight of every slot for messages and their replies, (B, steps, slots)."""
        _, first = self.encoder.read(words, lengths)
        decoder = self.decoder.bank_weights(self._inputs(teacher_forced(replies, reply_lengths)), first)
        return [*self.encoder.attention(words, lengths), *decoder]

    def attention_shares(
        self, words: Tensor, lengths: Tensor, replies: Tensor, reply_lengths: Tensor
    ) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]:
        """For each bank of the encoder, then of the decoder: the share of attention of each domain's slots.

        (B, T) at each word of the message; (B, L + 1) when each word of the reply is to be said, and the end.
        """
        weights = self.attention(words, lengths, replies, reply_lengths)
        shares = [bank.share(each) for bank, each in zip(self.banks, weights, strict=True)]
        return shares[: len(self.encoder.banks)], shares[len(self.encoder.banks) :]

    def _plan(self, growth: Growth, *, hidden: int, words: int, labels: int, **memory: Any) -> None:
        if labels:
            raise SettingsError("a model of replies has no labels: start a new model for labels")
        self.decoder.newest.plan(growth, hidden=hidden, **memory)
        for head in self.heads:  # all have the same words
            head.output.plan_words(growth, words)
        self.heads[-1].plan(growth, self.encoder.layout(hidden), self.decoder.layout(hidden), hidden)

    def add_column(self, hidden: int, slots: int = 0, domain: str | None = None) -> None:
        self.encoder.add_column(hidden, slots, domain)
        self.decoder.add_column(hidden, slots, domain)
        self.heads.append(self._new_head(len(self.encoder.sizes)))

    @property
    def banks(self) -> Sequence[MemoryBank]:
        return [*self.encoder.banks, *self.decoder.banks]

    def newest_parameters(self) -> list[nn.Parameter]:
        parts = (self.encoder.newest, self.decoder.newest, self.heads[-1])
        return [parameter for part in parts for parameter in part.parameters()]

    def _inputs(self, known: "TeacherForced") -> PackedSequence:
        """The vectors that the decoder reads; the rows of the first step are the first ones."""
        count, inputs = len(known.steps), known.inputs
        start = self.decoder.start.expand(count, -1)
        vectors = torch.cat((start, self.encoder.embedding(inputs.data[count:])))
        return inputs._replace(data=self.encoder.dropout(vectors))

    def _new_head(self, columns: int) -> "Head":
        """A head that reads the first columns of both sides."""
        sizes = (sum(self.encoder.sizes[:columns]), sum(self.decoder.sizes[:columns]))
        tied = self.settings.embedding if self.settings.tied else None
        hidden = self.decoder.columns[columns - 1].hidden_size
        return Head(*sizes, hidden=hidden, words=self.vocabulary_size, tied=tied).to(self.device)


class ReplyDecoder(Columns):
    """Reads a reply's words from left to right, after a learned vector that stands for the start."""

    def __init__(self, settings: ModelSettings, columns: Iterable[Mapping[str, Any]]) -> None:
        """With a column for each of the encoder's `columns`, of as many units and slots (see its shape)."""
        super().__init__(settings, bidirectional=False)
        self.start = nn.Parameter(torch.randn(settings.embedding) * SPREAD)
        self.columns = cast(list[MemoryRecurrent], nn.ModuleList())
        self.restore_columns(columns)


class Head(nn.Module):
    """Attention to the message, the joining layer, and the output layer.

    The joint vector has `hidden` numbers; in a tied model as many as a word's vector, whatever grows.
    """

    def __init__(self, encoded: int, decoded: int, *, hidden: int, words: int, tied: int | None) -> None:
        super().__init__()
        size = hidden if tied is None else tied
        self.reading = MessageAttention(encoded, decoded, size)
        self.output = Output(size, words, tied is not None)

    def plan(self, growth: Growth, encoded: Layout, decoded: Layout, hidden: int) -> None:
        """Make wider states part of a larger growth."""
        units = hidden if self.output.weight is not None else 0
        self.reading.plan(growth, encoded, decoded, units)
        self.output.plan_units(growth, units)


class MessageAttention(nn.Module):
    """Global attention of decoder states to a message, and the layer that joins what they find with the states."""

    def __init__(self, encoded: int, decoded: int, size: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(encoded, decoded).uniform_(-(decoded**-0.5), decoded**-0.5))
        bound = (encoded + decoded) ** -0.5
        self.weight = nn.Parameter(torch.empty(size, encoded + decoded).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(size).uniform_(-bound, bound))

    def forward(self, states: Tensor, message: Message) -> Tensor:
        """The context (B, L, S) that each decoder state (B, L, D) finds in its message."""
        logits = F.linear(states, self.query) @ message.states.transpose(1, 2)  # (B, L, T)
        logits = logits.masked_fill(~message.mask.unsqueeze(1), float("-inf"))
        return torch.softmax(logits, dim=-1) @ message.states

    def combine(self, states: Tensor, context: Tensor) -> Tensor:
        """States (..., D) and their context (..., S) as one vector (..., size)."""
        return torch.tanh(F.linear(torch.cat((context, states), dim=-1), self.weight, self.bias))

    def plan(self, growth: Growth, encoded: Layout, decoded: Layout, units: int) -> None:
        """Make wider states of both sides, and `units` more numbers of the joint vector, part of a larger growth."""
        draw = growth.uniform(_total(decoded) ** -0.5)
        growth.enlarge(self.query, 0, encoded, draw)
        growth.enlarge(self.query, 1, decoded, draw)
        draw, own = growth.uniform((_total(encoded) + _total(decoded)) ** -0.5), [(len(self.bias), units)]
        growth.enlarge(self.weight, 1, [*encoded, *decoded], draw)
        growth.enlarge(self.weight, 0, own, draw)
        growth.enlarge(self.bias, 0, own, draw)


class Output(nn.Module):
    """One row and one bias for each word. The rows of a tied layer are the words' vectors."""

    weight: nn.Parameter | None  # (words, size)
    bias: nn.Parameter  # (words)

    def __init__(self, size: int, words: int, tied: bool) -> None:
        super().__init__()
        bound = size**-0.5
        self.weight = None if tied else nn.Parameter(torch.empty(words, size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(words).uniform_(-bound, bound))

    def forward(self, rows: Tensor, vectors: Tensor) -> Tensor:
        """Scores (..., words) of rows (..., size); `vectors` are those of the words, for a tied layer."""
        return F.linear(rows, vectors if self.weight is None else self.weight, self.bias)

    def plan_words(self, growth: Growth, words: int) -> None:
        """Make rows of new words part of a larger growth; this comes before longer rows.

        A new word's row and bias are the mean of the old ones. Its score is then the mean of the old scores, so that n
        new words beside N old ones take at most n / (N + n) of the probability. In a tied layer that holds of the bias.
        """
        for parameter in (self.bias, self.weight):
            if parameter is not None:
                growth.enlarge(parameter, 0, [(len(parameter), words)], growth.mean_of(parameter))

    def plan_units(self, growth: Growth, units: int) -> None:
        """Make longer rows part of a larger growth; a tied layer's rows stay as long as the words' vectors."""
        if self.weight is not None:
            size = self.weight.shape[1]
            growth.enlarge(self.weight, 1, [(size, units)], growth.uniform((size + units) ** -0.5))


class TeacherForced(NamedTuple):
    """Known replies as the decoder is trained on them: of n words, n + 1 steps.

    The inputs are the start and the words, the targets the words and the end.
    """

    inputs: PackedSequence  # of word indices (rows); in the rows of the first step there is no word
    targets: Tensor  # (rows)
    steps: Tensor  # (B), on the CPU

    def spread(self, rows: Tensor) -> Tensor:
        """Packed rows (rows, ...) as (B, L + 1, ...), with zeros after the end of a reply."""
        return pad_packed_sequence(self.inputs._replace(data=rows), batch_first=True)[0]

    def gather(self, spread: Tensor) -> Tensor:
        return _packed(spread, self.steps).data


def teacher_forced(replies: Tensor, lengths: Tensor) -> TeacherForced:
    """Word indices (B, L) and lengths (B, 0 or more); what follows the end of a reply is ignored."""
    replies, ends, steps = replies[:, : int(lengths.max())], lengths.to(replies.device).unsqueeze(1), lengths.cpu() + 1
    targets = F.pad(replies, (0, 1)).scatter(1, ends, END)
    return TeacherForced(_packed(F.pad(replies, (1, 0)), steps), _packed(targets, steps).data, steps)


def _packed(rows: Tensor, steps: Tensor) -> PackedSequence:
    return pack_padded_sequence(rows, steps, batch_first=True, enforce_sorted=False)


@dataclass(frozen=True)
class ReplyLoss:
    """-log p of what was to be said. A token is a word or the end; an unknown word counts as the class "unknown"."""

    total: Tensor  # over all tokens; gradients go through this one
    tokens: Tensor  # (B, L + 1): of each token, 0 after the end; no gradients
    count: int  # of tokens


def _total(layout: Layout) -> int:
    return sum(size + extra for size, extra in layout)
