"""The writer of replies: a decoder of recurrent columns, and a head that attends to the message and scores words.

The decoder's states do not depend on that attention (it is global attention, after the recurrence), so that all steps
of a known reply are computed at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.vocabulary import PADDING_INDEX
from memgrow.models.chunked_cross_entropy import chunked_cross_entropy
from memgrow.models.columns import Columns, grow_by
from memgrow.models.encoder import SPREAD, ModelSettings
from memgrow.models.recurrent_encoder import Message
from memgrow.nn import Growth, MemoryRecurrent
from memgrow.nn.growth import Layout

END = PADDING_INDEX
"""No reply says padding, so its class is free to mean: the reply ends here. New words come after all others."""


class ReplyDecoder(Columns):
    """Reads a reply's words from left to right, after a vector of its own that stands for the start."""

    def __init__(self, settings: ModelSettings, columns: Sequence[Mapping[str, Any]]) -> None:
        """With a column for each of the encoder's `columns`, of as many units and slots (see its shape)."""
        super().__init__()
        self.settings, self.bidirectional = settings, False
        self.start = nn.Parameter(torch.randn(settings.embedding) * SPREAD)
        self.columns = cast(list[MemoryRecurrent], nn.ModuleList())
        for column in columns:
            self.add_column(column["hidden"])
            grow_by(self.newest, column["slots"])


class Head(nn.Module):
    """Attention to the message, the joining layer, and the output layer.

    The joint vector has `hidden` numbers; in a tied model as many as a word's vector, whatever grows.
    """

    def __init__(self, encoded: int, decoded: int, hidden: int, words: int, tied: int | None) -> None:
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
        logits = logits.masked_fill(~message.there.unsqueeze(1), float("-inf"))
        return torch.softmax(logits, dim=-1) @ message.states

    def combine(self, states: Tensor, found: Tensor) -> Tensor:
        """States (..., D) and what they found (..., S) as one vector (..., size)."""
        return torch.tanh(F.linear(torch.cat((found, states), dim=-1), self.weight, self.bias))

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
    """One row and one bias for each word. A tied layer has no rows of its own: the words' vectors are its rows."""

    weight: nn.Parameter | None  # (words, size)
    bias: nn.Parameter  # (words)

    def __init__(self, size: int, words: int, tied: bool) -> None:
        super().__init__()
        bound = size**-0.5
        self.weight = None if tied else nn.Parameter(torch.empty(words, size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(words).uniform_(-bound, bound))

    def forward(self, rows: Tensor, vectors: Tensor) -> Tensor:
        """Scores (..., words) of rows (..., size); `vectors` are those of the words, for a tied layer."""
        return F.linear(rows, self._table(vectors), self.bias)

    def loss(self, rows: Tensor, targets: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """-log p of the targets (rows): the sum, and each without gradients (rows)."""
        return chunked_cross_entropy(rows, self._table(vectors), self.bias, targets)

    def plan_words(self, growth: Growth, words: int) -> None:
        """Make rows of new words part of a larger growth; this comes before longer rows.

        A new word's row and bias are the mean of the old ones. Its score is then the mean of the old scores, so that n
        new words beside N old ones take at most n / (N + n) of the probability, whatever the model has learnt. In a
        tied layer only the bias is free to be so.
        """
        layout = [(len(self.bias), words)]
        growth.enlarge(self.bias, 0, layout, lambda shape: self.bias.detach().mean().expand(shape))
        if self.weight is not None:
            old = self.weight.detach()
            growth.enlarge(self.weight, 0, layout, lambda shape: old.mean(0).expand(shape))

    def plan_units(self, growth: Growth, units: int) -> None:
        """Make longer rows part of a larger growth; a tied layer's rows stay as long as the words' vectors."""
        if self.weight is not None:
            size = self.weight.shape[1]
            growth.enlarge(self.weight, 1, [(size, units)], growth.uniform((size + units) ** -0.5))

    def _table(self, vectors: Tensor) -> Tensor:
        return vectors if self.weight is None else self.weight


def _total(layout: Layout) -> int:
    return sum(size + extra for size, extra in layout)
