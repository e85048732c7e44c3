"""Beam search finds what exhaustive search finds when the beam is wide enough, and never more."""

import itertools

import pytest
import torch

from memgrow.models import ModelSettings, build
from memgrow.models.decoding import beam_search, decode

WORDS, LONGEST = 5, 3  # three words to choose from, beside the end and the unknown word
SHAPES = {
    "gru": {"cell": "gru", "bidirectional": False},
    "lstm, two layers": {"cell": "lstm", "layers": 2},
    "tied rnn": {"cell": "rnn", "tied": True},
}


@pytest.fixture(params=itertools.product(SHAPES, range(2)), ids=lambda given: f"{given[0]} {given[1]}")
def model(request):
    """Sure enough of itself that the best reply is seldom the shortest; an unknown word is as good as impossible."""
    shape, seed = request.param
    torch.manual_seed(seed)
    model = build("reply", ModelSettings(embedding=6, hidden=5, slots=4, **SHAPES[shape]), WORDS).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("heads", "decoder")):
                parameter.mul_(2.5)
        model.heads[-1].output.bias[:2] = torch.tensor([-0.5, -1e9])
    return model


MESSAGES, LENGTHS = torch.tensor([[2, 3, 4], [4, 0, 0], [3, 3, 0]]), torch.tensor([3, 1, 2])


@torch.no_grad()
def every_reply(model, row):
    """All replies of up to LONGEST words and their log-probabilities, by teacher forcing."""
    replies = [r for n in range(LONGEST + 1) for r in itertools.product(range(2, WORDS), repeat=n)]
    padded = torch.tensor([[*r, *[0] * (LONGEST - len(r))] for r in replies])
    message = MESSAGES[row : row + 1, : LENGTHS[row]].expand(len(replies), -1)
    lengths = torch.full((len(replies),), int(LENGTHS[row]))
    loss = model(message, lengths, padded, torch.tensor([len(r) for r in replies])).tokens.sum(1)
    return dict(zip(replies, (-loss).tolist(), strict=True))


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0, 2.0])
def test_a_wide_beam_equals_exhaustive_search(model, alpha):
    found = decode(model, MESSAGES, LENGTHS, beam=150, max_words=LONGEST, alpha=alpha)
    for row, reply in enumerate(found):
        scores = every_reply(model, row)
        best = max(scores, key=lambda words: scores[words] / (len(words) + 1) ** alpha)
        assert reply.words == best
        assert reply.score == pytest.approx(scores[best], abs=1e-6)
        assert reply.ended


def by_hand(model, row, size, alpha):
    """The same search with lists, for one message: an ended reply keeps its place among the `size`."""

    @torch.no_grad()
    def chances(replies):
        """What each further word, or the end, makes of each of these replies of one length."""
        further = [(words, word) for words in replies for word in (0, 2, 3, 4)]
        message = MESSAGES[row : row + 1, : LENGTHS[row]].expand(len(further), -1), LENGTHS[[row] * len(further)]
        said = torch.tensor([[*words, word] for words, word in further])
        counts = torch.tensor([len(words) + (word != 0) for words, word in further])
        losses = model(*message, said, counts).tokens[:, said.shape[1] - 1]
        return dict(zip(further, (-losses).tolist(), strict=True))

    live, ended = {(): 0.0}, {}
    for _ in range(LONGEST + 1):
        before = live
        further = {(words, word): live[words] + chance for (words, word), chance in chances(live).items()}
        kept = sorted(further, key=further.get, reverse=True)[: size - len(ended)]
        ended |= {words: further[words, word] for words, word in kept if word == 0}
        live = {(*words, word): further[words, word] for words, word in kept if word}
        if not live:
            break
    if not ended:
        return max(before.items(), key=lambda item: item[1])
    return max(ended.items(), key=lambda item: item[1] / (len(item[0]) + 1) ** alpha)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_a_narrow_beam_is_the_search_as_one_would_write_it_with_lists(model, size, alpha):
    for row, reply in enumerate(decode(model, MESSAGES, LENGTHS, beam=size, max_words=LONGEST, alpha=alpha)):
        words, score = by_hand(model, row, size, alpha)
        assert reply.words == words
        assert reply.score == pytest.approx(score, abs=1e-6)


def test_a_beam_of_one_is_greedy(model):
    with torch.no_grad():
        searched = beam_search(model, MESSAGES, LENGTHS, max_words=6, size=1, alpha=0.8)
    stepped = decode(model, MESSAGES, LENGTHS, max_words=6)
    assert [(r.words, r.ended) for r in searched] == [(r.words, r.ended) for r in stepped]
    assert [r.score for r in searched] == pytest.approx([r.score for r in stepped])


def test_where_nothing_ends_the_best_reply_is_cut(model):
    with torch.no_grad():
        model.heads[-1].output.bias[0] = -1e9
    for reply in decode(model, MESSAGES, LENGTHS, beam=3, max_words=LONGEST):
        assert len(reply.words) == LONGEST
        assert not reply.ended
        assert reply.score > -100, "the end that never came is not counted"


def test_a_reply_that_ended_goes_before_one_that_was_cut(model):
    with torch.no_grad():
        model.heads[-1].output.bias[0] = -8.0  # so that ended replies are found, and worth less than those that go on
    for reply in decode(model, MESSAGES, LENGTHS, beam=150, max_words=LONGEST, alpha=0.0):
        assert reply.ended


def test_with_no_word_to_say_the_reply_is_empty():
    model = build("reply", ModelSettings(embedding=6, hidden=5, slots=4), words=2)
    for reply in decode(model, torch.ones(2, 3, dtype=torch.long), torch.tensor([3, 1]), beam=3):
        assert (reply.words, reply.score, reply.ended) == ((), 0.0, True)
