"""From messages to replies: greedily, by beam search, or by sampling.

`generate` answers one batch and `generate_all` any number of messages. Greedy and sampled replies are written by
`word_by_word`, a beam by `beam_search`; both go step by step (`Steps`).
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from memgrow.data.batches import Encoded, by_length, collate
from memgrow.data.vocabulary import UNKNOWN_INDEX
from memgrow.errors import SettingsError
from memgrow.models.recurrent import run_columns
from memgrow.models.seq2seq import END, Responder
from memgrow.nn import MemoryRecurrent

MAX_WORDS = 40  # of a reply, by default; a longer one is cut
BATCH = {"cpu": 128, "cuda": 512}  # messages: a GPU's step takes as long for many as for few


@dataclass(frozen=True)
class Reply:
    """Word indices; no padding, no unknown word, no mark of the end."""

    words: tuple[int, ...]
    score: float  # log-probability of the words, and of the end where there is one, unknown words left out of account
    ended: bool  # False: it had not come to its end at the largest length, and was cut there


@torch.no_grad()
def generate(
    model: Responder,
    words: Tensor,
    lengths: Tensor,
    *,
    beam: int = 1,
    temperature: float | None = None,
    max_words: int = MAX_WORDS,
    alpha: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[Reply]:
    """A reply to each message, given as word indices (B, T) and lengths (B, at least 1).

    Greedy unless there is a `beam` of two or more, which weighs log-probability / tokens ** alpha, or a `temperature`
    to draw words at. A reply that has not ended after `max_words` words is cut there and says so.
    """
    if beam < 1 or max_words < 1:
        raise SettingsError(f"beam and max_words must be at least 1, not {beam} and {max_words}")
    if (temperature is not None and not 0 < temperature < float("inf")) or not alpha >= 0:
        raise SettingsError(f"temperature must be above 0 and alpha 0 or more, not {temperature} and {alpha}")
    if temperature is not None and beam > 1:
        raise SettingsError("give a beam or a temperature, not both")
    if not len(words):
        return []
    words, training = words.to(model.device), model.training
    model.eval()
    try:
        if temperature is not None:
            choose = _sampler(torch.rand(len(words), max_words + 1, generator=generator).to(words.device), temperature)
            return word_by_word(model, words, lengths, max_words, choose)
        if beam > 1:
            return beam_search(model, words, lengths, max_words, size=beam, alpha=alpha)
        return word_by_word(model, words, lengths, max_words, lambda scores, messages, number: scores.argmax(-1))
    finally:
        model.train(training)


def generate_all(model: Responder, data: Encoded, **search: Any) -> list[Reply]:
    """A reply to each message of the data, in their order; `search` is what `generate` takes."""
    found: dict[int, Reply] = {}
    for indices in by_length(data, BATCH.get(model.device.type, BATCH["cpu"])):
        batch = collate(data, indices, model.device)
        found |= zip(indices, generate(model, batch.words, batch.lengths, **search), strict=True)
    return [found[index] for index in range(len(data))]


class Steps:
    """Replies that are being written, `width` of them for each message."""

    def __init__(self, model: Responder, words: Tensor, lengths: Tensor, width: int = 1) -> None:
        self._model, self._width = model, width
        self._columns = [_stepwise(column) for column in model.decoder.columns]
        self._message, first = model.encoder.read(words, lengths)
        self._states = [tuple(part.repeat_interleave(width, dim=1) for part in state) for state in first]

    def __len__(self) -> int:
        """The number of messages."""
        return len(self._message.mask)

    def step(self, said: Tensor | None) -> Tensor:
        """Log-probabilities (B, width, words) of what comes after the words `said` (B, width); None at the start."""
        rows, model = len(self) * self._width, self._model
        start = model.decoder.start.expand(rows, -1)
        vectors = start if said is None else model.encoder.embedding(said.flatten())
        states, self._states = run_columns(self._columns, PackedSequence(vectors, torch.tensor([rows])), self._states)
        scores = model.scores(states.view(len(self), self._width, -1), self._message)
        scores[..., UNKNOWN_INDEX] = float("-inf")  # cannot be said; the end has padding's index
        return torch.log_softmax(scores, dim=-1)

    def follow(self, parents: Tensor) -> None:
        """Go on with these replies (B, width), by their numbers within their message; one may come several times."""
        first = torch.arange(len(self), device=parents.device).unsqueeze(1) * self._width
        self._take((first + parents).flatten())

    def keep(self, messages: Tensor) -> None:
        """Go on with these messages alone, by their numbers (kept)."""
        self._message = self._message.select(messages)
        each = torch.arange(self._width, device=messages.device)
        self._take((messages.unsqueeze(1) * self._width + each).flatten())

    def _take(self, rows: Tensor) -> None:
        self._states = [tuple(part.index_select(1, rows) for part in state) for state in self._states]


def _stepwise(column: MemoryRecurrent) -> MemoryRecurrent:
    """The same layer with the same parameters, by the backend that has nothing to prepare before its first step."""
    twin = copy.copy(column)
    twin.backend = "naive"
    return twin


Choose = Callable[[Tensor, Tensor, int], Tensor]
"""From log-probabilities (rows, words), the messages of those rows (rows), and the step: the next words (rows)."""


def word_by_word(model: Responder, words: Tensor, lengths: Tensor, max_words: int, choose: Choose) -> list[Reply]:
    """Replies whose words are chosen one after another; those that have ended cost nothing any more."""
    steps, count, device = Steps(model, words, lengths), len(words), words.device
    said = torch.full((count, max_words), END, device=device)
    score = torch.zeros(count, dtype=torch.double, device=device)
    ended = torch.zeros(count, dtype=torch.bool, device=device)
    messages, last = torch.arange(count, device=device), None
    for number in range(max_words + 1):  # after the last word there may still come the end
        scores = steps.step(last)[:, 0]
        word = choose(scores, messages, number)
        ends = word == END
        ended[messages] = ends
        counts = ends if number == max_words else torch.ones_like(ends)
        score[messages] += scores.gather(1, word.unsqueeze(1)).squeeze(1).double() * counts
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


def _sampler(numbers: Tensor, temperature: float) -> Choose:
    """Draws words from the model's probabilities, sharpened (below 1) or flattened (above) by the temperature.

    All random `numbers` (messages, steps) are drawn beforehand, on the CPU: a seed means the same on every device, and
    a reply depends on its message's position in the batch, but not on its neighbours.
    """

    def draw(scores: Tensor, messages: Tensor, number: int) -> Tensor:
        up_to = torch.softmax(scores.double() / temperature, dim=-1).cumsum(-1)  # (rows, words)
        # The mark is below the last sum: single numbers end at 1 - 2^-24.
        mark = numbers[messages, number].unsqueeze(1) * up_to[:, -1:]
        return torch.searchsorted(up_to, mark, right=True).squeeze(1)

    return draw


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


def beam_search(
    model: Responder, words: Tensor, lengths: Tensor, max_words: int, *, size: int, alpha: float = 1.0
) -> list[Reply]:
    """The reply to each message with the largest log-probability / tokens ** alpha; the end is a token.

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
    for number in range(max_words + 1):  # after the last word there may still come the end
        scores = steps.step(live.words[:, :, -1] if number else None)  # (rows, size, words)
        totals = (live.scores.unsqueeze(2) + scores).flatten(1)
        best, places = totals.topk(size, dim=1)
        parents, word = places // scores.shape[2], places % scores.shape[2]
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
        """Take, where no reply ended, the best of those that go on, as far as it has come."""
        places = live.scores.argmax(1)
        rows = torch.arange(len(places), device=places.device)
        words, scores = live.words[rows, places].tolist(), live.scores[rows, places].tolist()
        for message, said, score in zip(live.messages.tolist(), words, scores, strict=True):
            if self._best[message] is None:
                self._best[message] = (score, Reply(tuple(said), score, False))

    def replies(self) -> list[Reply]:
        return [reply for best in self._best if best for reply in best[1:]]
