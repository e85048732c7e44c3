"""From messages to replies: greedily, by beam search, or by chance."""

import torch
from torch import Tensor

from memgrow.decoding.beam import beam as search
from memgrow.decoding.greedy import greedy
from memgrow.decoding.reply import Reply
from memgrow.decoding.sampling import sample
from memgrow.errors import SettingsError
from memgrow.models.responder import Responder


@torch.no_grad()
def decode(
    model: Responder,
    words: Tensor,
    lengths: Tensor,
    *,
    beam: int = 1,
    temperature: float | None = None,
    max_words: int = 40,
    alpha: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[Reply]:
    """A reply to each message, given as word indices (B, T) and lengths (B, at least 1).

    Greedy unless there is a `beam` of two or more, which weighs log-probability / tokens ** alpha, or a `temperature`
    to draw words at. A reply that has not ended after `max_words` words is cut there and says so.
    """
    if beam < 1 or max_words < 1:
        raise SettingsError(f"beam and max_words must be at least 1, not {beam} and {max_words}")
    if temperature is not None and not 0 < temperature < float("inf"):
        raise SettingsError(f"temperature must be above 0, not {temperature}; without one the best words are taken")
    if not alpha >= 0:
        raise SettingsError(f"alpha must be 0 or more, not {alpha}")
    if temperature is not None and beam > 1:
        raise SettingsError("a reply is either searched for or drawn: give a beam or a temperature, not both")
    if not len(words):
        return []
    words, training = words.to(model.encoder.embedding.weight.device), model.training
    model.eval()
    try:
        if temperature is not None:
            return sample(model, words, lengths, max_words, temperature, generator)
        if beam > 1:
            return search(model, words, lengths, max_words, beam, alpha)
        return greedy(model, words, lengths, max_words)
    finally:
        model.train(training)


__all__ = ["Reply", "decode"]
