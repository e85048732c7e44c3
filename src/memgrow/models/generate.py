"""From messages to replies: greedily, by beam search, or by sampling."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from memgrow.data.batches import Encoded, by_length, collate
from memgrow.data.text import UNKNOWN_INDEX
from memgrow.errors import SettingsError
from memgrow.models.recurrent import run_columns
from memgrow.models.seq2seq import END, Responder
from memgrow.nn import MemoryRecurrent

MAX_WORDS = 40  # of a reply, by default; a longer one is cut
BATCH = {"cpu": 128, "cuda": 512}  # messages: a GPU's step takes as long for many as for few
NEVER = float("-inf")


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
    generator: torch.Generator | None = None,
) -> list[Reply]:
    """A reply to each message, given as word indices (B, T) and lengths (B, at least 1).

    Greedy unless there is a `beam` of two or more, which weighs log-probability / tokens, or a `temperature`
    to draw words at. A reply that has not ended after `max_words` words is cut there and says so.
    """
    if beam < 1 or max_words < 1:
        raise SettingsError(f"beam and max_words must be at least 1, not {beam} and {max_words}")
    if temperature is not None and not 0 < temperature < float("inf"):
        raise SettingsError(f"temperature must be above 0, not {temperature}")
    if temperature is not None and beam > 1:
        raise SettingsError("give a beam or a temperature, not both")
    if not len(words):
        return []
    words, training = words.to(model.device), model.training
    choose = _best(beam)
    if temperature is not None:
        choose = _drawn(torch.rand(len(words), max_words + 1, generator=generator).to(words.device), temperature)
    model.eval()
    try:
        return _search(Steps(model, words, lengths, beam), choose, max_words)
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
        self.width, self.device, self._model = width, words.device, model
        self._columns = [_stepwise(column) for column in model.decoder.columns]
        self._message, first = model.encoder.read(words, lengths)
        self._states = [tuple(part.repeat_interleave(width, dim=1) for part in state) for state in first]

    def __len__(self) -> int:
        """The number of messages."""
        return len(self._message.mask)

    def step(self, said: Tensor | None) -> Tensor:
        """Log-probabilities (B, width, words) of what comes after the words `said` (B, width); None at the start."""
        rows, model = len(self) * self.width, self._model
        start = model.decoder.start.expand(rows, -1)
        vectors = start if said is None else model.encoder.embedding(said.flatten())
        states, self._states = run_columns(self._columns, PackedSequence(vectors, torch.tensor([rows])), self._states)
        scores = model.scores(states.view(len(self), self.width, -1), self._message)
        scores[..., UNKNOWN_INDEX] = NEVER  # cannot be said; the end has padding's index
        return torch.log_softmax(scores, dim=-1)

    def follow(self, messages: Tensor, parents: Tensor) -> None:
        """Go on with these messages (kept), and with these of their replies (kept, width); one may come repeatedly."""
        if len(messages) < len(self):
            self._message = self._message.select(messages)
        rows = (messages.unsqueeze(1) * self.width + parents).flatten()
        self._states = [tuple(part.index_select(1, rows) for part in state) for state in self._states]


def _stepwise(column: MemoryRecurrent) -> MemoryRecurrent:
    """The same layer with the same parameters, by the backend that has nothing to prepare before its first step."""
    twin = copy.copy(column)
    twin.backend = "naive"
    return twin


Choose = Callable[[Tensor, Tensor, int], Tensor]
"""From sums of log-probabilities (rows, width * words), the rows' messages and the step: places (rows, width)."""


def _best(width: int) -> Choose:
    if width == 1:
        return lambda totals, messages, number: totals.argmax(1, keepdim=True)
    return lambda totals, messages, number: totals.topk(width, dim=1).indices


def _drawn(numbers: Tensor, temperature: float) -> Choose:
    """Draws words from the model's probabilities, sharpened (below 1) or flattened (above) by the temperature.

    All random `numbers` (messages, steps) are drawn beforehand, on the CPU: a seed means the same on every device, and
    a reply depends on its message's position in the batch, but not on its neighbours.
    """

    def draw(totals: Tensor, messages: Tensor, number: int) -> Tensor:
        up_to = torch.softmax(totals.double() / temperature, dim=-1).cumsum(-1)  # (rows, words)
        # The mark is below the last sum: single numbers end at 1 - 2^-24.
        mark = numbers[messages, number].unsqueeze(1) * up_to[:, -1:]
        return torch.searchsorted(up_to, mark, right=True)

    return draw


def _search(steps: Steps, choose: Choose, max_words: int) -> list[Reply]:
    """The reply to each message with the largest log-probability / tokens; the end is a token.

    A hypothesis that ends keeps its place, so that `width` are looked at in all. A reply that ended goes before any
    that was cut.
    """
    count, width, device = len(steps), steps.width, steps.device
    ended: dict[int, tuple[float, Reply]] = {}  # the best of each message that has any
    messages = torch.arange(count, device=device)  # those that have replies to go on with, (rows)
    said = torch.empty(count, width, 0, dtype=torch.long, device=device)
    scores = torch.full((count, width), NEVER, device=device)
    scores[:, 0] = 0.0  # in the beginning there is one hypothesis, the empty reply
    room = torch.full((count, 1), width, device=device)  # places that no ended reply has taken
    for number in range(max_words + 1):  # after the last word there may still come the end
        following = steps.step(said[:, :, -1] if number else None)  # (rows, width, words)
        totals = (scores.unsqueeze(2) + following).flatten(1)
        places = choose(totals, messages, number)
        parents, word = places // following.shape[2], places % following.shape[2]
        free = torch.arange(width, device=device) < room
        chosen = totals.gather(1, places).masked_fill(~free, NEVER)
        before = said.gather(1, parents.unsqueeze(2).expand(-1, -1, number))
        ends = (word == END) & (chosen > NEVER)
        at = messages.unsqueeze(1).expand_as(ends)[ends].tolist()
        for message, reply, score in zip(at, before[ends].tolist(), chosen[ends].tolist(), strict=True):
            worth = score / (number + 1)
            if message not in ended or worth > ended[message][0]:
                ended[message] = worth, Reply(tuple(reply), score, True)
        if number == max_words:
            break
        chosen = chosen.masked_fill(ends, NEVER)
        going = (chosen > NEVER).any(1).nonzero().squeeze(1)
        if not len(going):
            break
        steps.follow(going, parents[going])
        said = torch.cat((before, word.unsqueeze(2)), dim=2)[going]
        messages, scores, room = messages[going], chosen[going], (room - ends.sum(1, keepdim=True))[going]
    replies = {message: reply for message, (_, reply) in ended.items()}
    best = scores.argmax(1).tolist()
    for message, rows, sums, place in zip(messages.tolist(), said.tolist(), scores.tolist(), best, strict=True):
        replies.setdefault(message, Reply(tuple(rows[place]), sums[place], False))
    return [replies[message] for message in range(count)]
