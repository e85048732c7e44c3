"""Replies drawn by chance."""

import torch
from torch import Tensor

from memgrow.decoding.greedy import word_by_word
from memgrow.decoding.reply import Reply
from memgrow.models.responder import Responder


def sample(
    model: Responder,
    words: Tensor,
    lengths: Tensor,
    max_words: int,
    temperature: float,
    generator: torch.Generator | None = None,
) -> list[Reply]:
    """Each word is drawn from the model's probabilities, sharpened (below 1) or flattened (above) by the temperature.

    All numbers are drawn beforehand, on the CPU: a seed means the same on every device, and what a message is answered
    depends on its place in the batch, but not on its neighbours.
    """
    numbers = torch.rand(len(words), max_words + 1, generator=generator).to(words.device)

    def draw(chances: Tensor, messages: Tensor, number: int) -> Tensor:
        up_to = torch.softmax(chances.double() / temperature, dim=-1).cumsum(-1)  # (rows, words)
        mark = (
            numbers[messages, number].unsqueeze(1) * up_to[:, -1:]
        )  # below the last sum: single numbers end at 1 - 2^-24
        return torch.searchsorted(up_to, mark, right=True).squeeze(1)

    return word_by_word(model, words, lengths, max_words, draw)
