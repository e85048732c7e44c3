"""A responder's loss is what the equations say, and what a row yields is its own affair."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence

from memgrow.data.vocabulary import UNKNOWN_INDEX
from memgrow.models import ModelSettings, build
from memgrow.models.columns import run_columns

WORDS = 11
KINDS = {
    "gru": {"cell": "gru", "bidirectional": False},
    "gru without memory": {"cell": "gru", "bidirectional": False, "slots": 0},
    "lstm, both directions, two layers": {"cell": "lstm", "layers": 2, "slot_size": 3},
    "rnn, tied": {"cell": "rnn", "bidirectional": False, "tied": True},
    "gru, both directions, tied": {"cell": "gru", "tied": True},
}


def responder(columns=1, **settings):
    torch.manual_seed(0)
    model = build(
        "reply", ModelSettings(**{"embedding": 6, "hidden": 5, "slots": 4, **settings}), WORDS, domain="first"
    )
    for _ in range(columns - 1):
        model.add_column(7, 3, "later")
    return model.double()


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def model(request):
    return responder(**request.param)


def pairs():
    torch.manual_seed(1)
    lengths, ends = torch.tensor([4, 7, 1, 3]), torch.tensor([3, 1, 5, 0])
    return torch.randint(1, WORDS, (4, 7)), lengths, torch.randint(1, WORDS, (4, 5)), ends


def by_hand(model, message, reply):
    """-log p of each token of one reply to one message: no padding, no packing, a step at a time."""
    words, column = model.encoder.embedding, model.encoder.newest
    states, last = column(words(message).unsqueeze(1))  # (T, 1, H)
    sides = column.num_directions
    state = tuple(
        part.view(column.num_layers, sides, 1, -1).sum(1) / sides
        for part in (last if isinstance(last, tuple) else (last,))
    )
    states, reading, output = states[:, 0], model.heads[-1].reading, model.heads[-1].output
    table = words.weight if output.weight is None else output.weight
    losses, vector = [], model.decoder.start
    for target in [*reply.tolist(), 0]:
        answer, last = model.decoder.newest(vector.view(1, 1, -1), state)
        state = last if isinstance(last, tuple) else (last,)
        h = answer[0, 0]
        weights = torch.softmax(states @ (reading.query @ h), dim=0)
        joint = torch.tanh(reading.weight @ torch.cat((weights @ states, h)) + reading.bias)
        losses.append(-F.log_softmax(table @ joint + output.bias, dim=0)[target])
        vector = words.weight[target]
    return torch.stack(losses)


def test_the_loss_is_that_of_the_equations_one_step_at_a_time(model):
    words, lengths, replies, ends = pairs()
    found = model(words, lengths, replies, ends)
    for row, (length, end) in enumerate(zip(lengths, ends, strict=True)):
        losses = by_hand(model, words[row, :length], replies[row, :end])
        torch.testing.assert_close(found.tokens[row, : end + 1], losses.detach())
        assert not found.tokens[row, end + 1 :].any()
    assert found.count == int(ends.sum()) + len(ends), "the end of each reply is a token"
    torch.testing.assert_close(found.total.detach(), found.tokens.sum())
    torch.testing.assert_close(found.mean, found.total / found.count)


def test_gradients_are_those_of_the_equations(model):
    words, lengths, replies, ends = pairs()
    named = {name: p for name, p in model.named_parameters() if p.numel()}
    plain = [by_hand(model, words[r, : lengths[r]], replies[r, : ends[r]]).sum() for r in range(len(ends))]
    expected = torch.autograd.grad(torch.stack(plain).sum(), list(named.values()))
    found = torch.autograd.grad(model(words, lengths, replies, ends).total, list(named.values()))
    for name, ours, theirs in zip(named, found, expected, strict=True):
        if name == "encoder.embedding.weight" and not model.settings.tied:
            theirs[0] = 0  # padding has no gradient, and no word of these texts is padding
        torch.testing.assert_close(ours, theirs, msg=name)


@pytest.mark.parametrize("columns", [1, 3])
def test_neighbours_and_padding_never_matter(model, columns):
    model = responder(columns, **{name: getattr(model.settings, name) for name in ("cell", "bidirectional", "tied")})
    words, lengths, replies, ends = pairs()
    together = model(words, lengths, replies, ends).tokens
    past_end = torch.arange(7) >= lengths.unsqueeze(1), torch.arange(5) >= ends.unsqueeze(1)
    other = (
        F.pad(words.masked_fill(past_end[0], 3), (0, 4), value=2),
        F.pad(replies.masked_fill(past_end[1], 3), (0, 6)),
    )
    torch.testing.assert_close(model(other[0], lengths, other[1], ends).tokens, together, rtol=0, atol=0)
    for row in range(4):
        alone = model(words[row : row + 1], lengths[row : row + 1], replies[row : row + 1], ends[row : row + 1])
        torch.testing.assert_close(alone.tokens[0], together[row, : alone.count])


def test_what_is_said_later_never_matters(model):
    words, lengths, replies, ends = pairs()
    before = model(words, lengths, replies, ends).tokens
    changed = replies.clone()
    changed[2, 3] = replies[2, 3] % (WORDS - 1) + 1
    after = model(words, lengths, changed, ends).tokens
    torch.testing.assert_close(after[2, :3], before[2, :3])
    assert (after[2, 3:] != before[2, 3:]).all()


def test_an_unknown_word_of_a_reply_counts_as_the_class_unknown(model):
    words, lengths = torch.tensor([[5, 6]]), torch.tensor([2])
    reply = torch.tensor([[UNKNOWN_INDEX]])
    before = model(words, lengths, reply, torch.tensor([1])).tokens[0, 0]
    with torch.no_grad():
        model.heads[-1].output.bias[UNKNOWN_INDEX] += 100
    assert before > 1
    assert model(words, lengths, reply, torch.tensor([1])).tokens[0, 0] < 1e-9


def test_everything_learns(model):
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    words, lengths, replies, ends = pairs()
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = model(words, lengths, replies, ends).mean
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.4 * losses[0]
    assert all(p.grad.abs().sum() > 0 for p in model.parameters() if p.numel())


def test_shares_of_attention_add_up_to_one_at_every_word_and_step(model):
    words, lengths, replies, ends = pairs()
    model.grow(slots=6, domain="second")
    shares = model.reading(words, lengths, replies, ends)
    assert len(shares.encoder) == len(model.encoder.newest.banks)
    assert len(shares.decoder) == len(model.decoder.newest.banks)
    for banks, counts in ((shares.encoder, lengths), (shares.decoder, ends + 1)):
        there = torch.arange(int(counts.max())) < counts.unsqueeze(1)
        for share in banks:
            assert set(share) == {segment.domain for segment in model.encoder.newest.banks[0].segments}
            torch.testing.assert_close(sum(share.values()), there.double())


def test_a_later_column_reads_the_earlier_ones_and_has_slots_of_its_own():
    words, lengths, replies, ends = pairs()
    model = responder(columns=2, cell="gru", bidirectional=False)
    before = model(words, lengths, replies, ends).mean
    with torch.no_grad():
        model.decoder.columns[0].weight_hh_l0.mul_(1.5)
    assert model(words, lengths, replies, ends).mean != before
    assert set(model.reading(words, lengths, replies, ends).decoder[0]) == {"later"}


def test_the_shares_of_a_later_column_are_those_of_the_states_that_its_steps_start_from():
    model = responder(columns=2, cell="gru", bidirectional=False)
    model.grow(slots=5, domain="latest")
    message, reply, ends = torch.tensor([[5, 2, 7]]), torch.tensor([[3, 9, 4]]), torch.tensor([3])
    shares = model.reading(message, torch.tensor([3]), reply, ends).decoder[0]
    _, states = model.encoder.read(message, torch.tensor([3]))
    bank, vectors = model.decoder.newest.banks[0], [model.decoder.start, *model.encoder.embedding(reply[0])]
    for number, vector in enumerate(vectors):
        weights = bank.attend(states[-1][0][0, 0])[1]
        torch.testing.assert_close(shares["later"][0, number], weights[:3].sum())
        torch.testing.assert_close(shares["latest"][0, number], weights[3:].sum())
        _, states = run_columns(model.decoder.columns, PackedSequence(vector.view(1, -1), torch.tensor([1])), states)
