"""One step of the decoder for a batch: messages are read once, states are carried, a word goes in at a time."""

import copy

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from memgrow.models.responder import Responder
from memgrow.models.responder.columns import walk
from memgrow.nn import MemoryRecurrent
from memgrow.text import UNKNOWN_INDEX


class Steps:
    """Replies that are being written, `width` of them for each message."""

    def __init__(self, model: Responder, words: Tensor, lengths: Tensor, width: int = 1) -> None:
        self._model, self._width = model, width
        self._columns = [_stepwise(column) for column in model.decoder.columns]
        self._message, first = model.encoder.read(words, lengths)
        self._states = [tuple(part.repeat_interleave(width, dim=1) for part in state) for state in first]

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self._message.there)

    def step(self, said: Tensor | None) -> Tensor:
        """Log-probabilities (B, width, words) of what comes behind the words `said` (B, width); None at the start."""
        rows, model = len(self) * self._width, self._model
        start = model.decoder.start.expand(rows, -1)
        vectors = start if said is None else model.encoder.embedding(said.flatten())
        states, self._states = walk(self._columns, PackedSequence(vectors, torch.tensor([rows])), self._states)
        scores = model.scores(states.view(len(self), self._width, -1), self._message)
        scores[..., UNKNOWN_INDEX] = float("-inf")  # nobody can say an unknown word; the end has padding's place
        return torch.log_softmax(scores, dim=-1)

    def follow(self, parents: Tensor) -> None:
        """Go on with these replies (B, width), by their numbers within their message; one may come several times."""
        first = torch.arange(len(self), device=parents.device).unsqueeze(1) * self._width
        self._take((first + parents).flatten())

    def keep(self, messages: Tensor) -> None:
        """Go on with these messages alone, by their numbers (kept)."""
        self._message = self._message.some(messages)
        each = torch.arange(self._width, device=messages.device)
        self._take((messages.unsqueeze(1) * self._width + each).flatten())

    def _take(self, rows: Tensor) -> None:
        self._states = [tuple(part.index_select(1, rows) for part in state) for state in self._states]


def _stepwise(column: MemoryRecurrent) -> MemoryRecurrent:
    """The same layer, parameters and all, by the way that has nothing to prepare before its first step."""
    twin = copy.copy(column)
    twin.backend = "naive"
    return twin
