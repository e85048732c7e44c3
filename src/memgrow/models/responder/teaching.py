"""Teacher forcing: known replies laid out so that the decoder reads all of their steps in one call."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from memgrow.models.responder.output import END


class KnownReplies(NamedTuple):
    """A reply of n words has n + 1 steps: it reads the start and its words, and says its words and the end."""

    heard: PackedSequence  # of word indices (rows); in the rows of the first step there is no word
    said: Tensor  # (rows)
    places: Tensor  # (rows): where in (B, L + 1), flattened, each row stands
    shape: tuple[int, int]  # (B, L + 1)

    def spread(self, rows: Tensor) -> Tensor:
        """Packed rows (rows, ...) as (B, L + 1, ...), with zeros behind the end of a reply."""
        flat = rows.new_zeros(self.shape[0] * self.shape[1], *rows.shape[1:])
        return flat.index_copy(0, self.places, rows).view(*self.shape, *rows.shape[1:])

    def gather(self, spread: Tensor) -> Tensor:
        """The way back."""
        return spread.flatten(0, 1).index_select(0, self.places)


def lay_out(replies: Tensor, lengths: Tensor) -> KnownReplies:
    """Word indices (B, L) and lengths (B, 0 or more); what stands behind the end of a reply is never looked at."""
    replies, ends = replies[:, : int(lengths.max())], lengths.to(replies.device).unsqueeze(1)
    heard = F.pad(replies, (1, 0))
    said = F.pad(replies, (0, 1)).scatter(1, ends, END)
    places = torch.arange(heard.numel(), device=heard.device).view_as(heard)
    packed = pack_padded_sequence(places, lengths.cpu() + 1, batch_first=True, enforce_sorted=False)
    at = packed.data
    return KnownReplies(
        packed._replace(data=heard.flatten()[at]), said.flatten()[at], at, (heard.shape[0], heard.shape[1])
    )
