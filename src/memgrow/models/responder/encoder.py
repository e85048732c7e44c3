"""The reader of messages: the encoder of texts, whose states the decoder attends to and starts from."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from memgrow.models.encoder import TextEncoder
from memgrow.models.responder.columns import State, walk


class Message(NamedTuple):
    """What is known of a batch of messages, for the decoder to attend to."""

    states: Tensor  # (B, T, S), 0 behind the end of a message
    there: Tensor  # (B, T): whether there is a word

    def some(self, rows: Tensor) -> "Message":
        return Message(self.states.index_select(0, rows), self.there.index_select(0, rows))


class MessageEncoder(TextEncoder):
    """Reads word indices (B, T) and lengths (B, at least 1) of messages."""

    def read(self, words: Tensor, lengths: Tensor) -> tuple[Message, list[State]]:
        """The states of all columns at each word, and the state that each column's decoder starts from.

        That is the last state; of an encoder that reads in both directions, the mean of the two last states.
        """
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        embedded = self.dropout(self.embedding(packed.data))
        rows, lasts = walk(self.columns, packed._replace(data=embedded))
        states, _ = pad_packed_sequence(packed._replace(data=rows), batch_first=True)
        there = torch.arange(states.shape[1], device=states.device) < lengths.to(states.device).unsqueeze(1)
        sides = self.newest.num_directions
        first = [tuple(part.reshape(-1, sides, *part.shape[1:]).mean(1) for part in last) for last in lasts]
        return Message(states, there), first
