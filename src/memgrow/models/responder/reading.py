"""Attention from the decoder to the message, behind the recurrence, and the layer that joins the two."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.models.responder.encoder import Message
from memgrow.nn import Growth
from memgrow.nn.growth import Layout


class Reading(nn.Module):
    """Global attention: no decoder state depends on it, so that all steps of a known reply are read at once."""

    def __init__(self, encoded: int, decoded: int, size: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(encoded, decoded).uniform_(-(decoded**-0.5), decoded**-0.5))
        bound = (encoded + decoded) ** -0.5
        self.weight = nn.Parameter(torch.empty(size, encoded + decoded).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(size).uniform_(-bound, bound))

    def forward(self, states: Tensor, message: Message) -> Tensor:
        """For decoder states (B, L, D): what each finds in its message (B, L, S)."""
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


def _total(layout: Layout) -> int:
    return sum(size + extra for size, extra in layout)
