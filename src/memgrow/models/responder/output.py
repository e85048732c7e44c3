"""The output layer: a score for every word and for the end of the reply."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.models.responder.surprise import surprise
from memgrow.nn import Growth
from memgrow.text import PADDING_INDEX

END = PADDING_INDEX
"""No reply says padding, so its class is free to mean: the reply ends here. New words come behind all others."""


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

    def surprise(self, rows: Tensor, targets: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """-log p of the targets (rows): the sum, and each without gradients (rows)."""
        return surprise(rows, self._table(vectors), self.bias, targets)

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
