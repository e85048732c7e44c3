"""Beam search: the best reply that a number of hypotheses side by side come upon."""

from dataclasses import dataclass

import torch
from torch import Tensor

from memgrow.decoding.reply import Reply
from memgrow.decoding.stepping import Steps
from memgrow.models.responder import END, Responder

NEVER = float("-inf")


@dataclass
class Hypotheses:
    """Replies that have not ended, `size` for each message that has any."""

    messages: Tensor  # (rows): the message of each row
    words: Tensor  # (rows, size, so far)
    scores: Tensor  # (rows, size), NEVER where a place is empty
    room: Tensor  # (rows): places that no ended reply has taken

    def some(self, rows: Tensor) -> "Hypotheses":
        return Hypotheses(self.messages[rows], self.words[rows], self.scores[rows], self.room[rows])


def beam(
    model: Responder, words: Tensor, lengths: Tensor, max_words: int, size: int, alpha: float = 1.0
) -> list[Reply]:
    """For each message the reply with the largest log-probability / tokens ** alpha; the end is a token.

    A hypothesis that ends keeps its place, so that `size` are looked at in all, and a beam of one is greedy. A reply
    that ended goes before any that was cut.
    """
    count, device = len(words), words.device
    steps, found = Steps(model, words, lengths, size), _Found(count, alpha)
    scores = torch.full((count, size), NEVER, device=device)
    scores[:, 0] = 0.0  # in the beginning there is one hypothesis, the empty reply
    live = Hypotheses(
        torch.arange(count, device=device),
        torch.empty(count, size, 0, dtype=torch.long, device=device),
        scores,
        torch.full((count,), size, device=device),
    )
    for number in range(max_words + 1):  # behind the last word there may still come the end
        chances = steps.step(live.words[:, :, -1] if number else None)  # (rows, size, words)
        totals = (live.scores.unsqueeze(2) + chances).flatten(1)
        best, places = totals.topk(size, dim=1)
        parents, word = places // chances.shape[2], places % chances.shape[2]
        taken = torch.arange(size, device=device) < live.room.unsqueeze(1)
        best = best.masked_fill(~taken, NEVER)
        ends = (word == END) & (best > NEVER)
        said = live.words.gather(1, parents.unsqueeze(2).expand(-1, -1, number))
        found.ended(live.messages, said, best, ends)
        if number == max_words:
            found.cut(live)
            break
        steps.follow(parents)
        live = Hypotheses(
            live.messages,
            torch.cat((said, word.unsqueeze(2)), dim=2),
            best.masked_fill(ends, NEVER),
            live.room - ends.sum(1),
        )
        going = (live.scores > NEVER).any(1).nonzero().squeeze(1)
        if len(going) < len(live.messages):
            steps.keep(going)
            live = live.some(going)
        if not len(going):
            break
    return found.replies()


class _Found:
    """The best reply to each message so far."""

    def __init__(self, count: int, alpha: float) -> None:
        self._alpha = alpha
        self._best: list[tuple[float, Reply] | None] = [None] * count

    def ended(self, messages: Tensor, said: Tensor, scores: Tensor, ends: Tensor) -> None:
        """Those of the replies `said` (rows, size, so far) that end now, with the end in their scores."""
        rows, places = ends.nonzero(as_tuple=True)
        tokens = said.shape[2] + 1
        for message, words, score in zip(
            messages[rows].tolist(), said[rows, places].tolist(), scores[rows, places].tolist(), strict=True
        ):
            worth, best = score / tokens**self._alpha, self._best[message]
            if best is None or worth > best[0]:
                self._best[message] = (worth, Reply(tuple(words), score, True))

    def cut(self, live: Hypotheses) -> None:
        """Where no reply ended, the best of those that go on counts, as far as it has come."""
        places = live.scores.argmax(1)
        rows = torch.arange(len(places), device=places.device)
        words, scores = live.words[rows, places].tolist(), live.scores[rows, places].tolist()
        for message, said, score in zip(live.messages.tolist(), words, scores, strict=True):
            if self._best[message] is None:
                self._best[message] = (score, Reply(tuple(said), score, False))

    def replies(self) -> list[Reply]:
        return [reply for best in self._best if best for reply in best[1:]]
