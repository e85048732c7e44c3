"""One reply for each message, written word by word; greedily, each word is the most probable one."""

from collections.abc import Callable

import torch
from torch import Tensor

from memgrow.decoding.reply import Reply
from memgrow.decoding.stepping import Steps
from memgrow.models.responder import END, Responder

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""From log-probabilities (rows, words), the messages of those rows (rows), and the step: the next words (rows)."""


def greedy(model: Responder, words: Tensor, lengths: Tensor, max_words: int) -> list[Reply]:
    return word_by_word(model, words, lengths, max_words, lambda chances, messages, number: chances.argmax(-1))


def word_by_word(model: Responder, words: Tensor, lengths: Tensor, max_words: int, choose: Choose) -> list[Reply]:
    """Replies whose words are chosen one after another; those that have ended cost nothing any more."""
    steps, count, device = Steps(model, words, lengths), len(words), words.device
    said = torch.full((count, max_words), END, device=device)
    score = torch.zeros(count, dtype=torch.double, device=device)
    ended = torch.zeros(count, dtype=torch.bool, device=device)
    messages, last = torch.arange(count, device=device), None
    for number in range(max_words + 1):  # behind the last word there may still come the end
        chances = steps.step(last)[:, 0]
        word = choose(chances, messages, number)
        ends = word == END
        ended[messages] = ends
        counts = ends if number == max_words else torch.ones_like(ends)
        score[messages] += chances.gather(1, word.unsqueeze(1)).squeeze(1).double() * counts
        if number == max_words:
            break
        said[messages, number] = word
        going = (~ends).nonzero().squeeze(1)
        if len(going) < len(messages):
            steps.keep(going)
            messages, word = messages[going], word[going]
        if not len(going):
            break
        last = word.unsqueeze(1)
    rows = zip(said.tolist(), score.tolist(), ended.tolist(), strict=True)
    return [Reply(tuple(w for w in row if w != END), total, done) for row, total, done in rows]
