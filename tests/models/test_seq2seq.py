"""A responder's loss is what the equations say, rows do not depend on each other, and it grows on both sides."""

import math

import pytest
import torch
import torch.nn.functional as F

from memgrow.errors import SettingsError
from memgrow.methods.base import old_part
from memgrow.models import ModelSettings, build, rebuild
from memgrow.models.seq2seq import teacher_forced

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


def test_everything_learns(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    words, lengths, replies, ends = pairs()
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = model(words, lengths, replies, ends).total
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.4 * losses[0]
    assert all(p.grad.abs().sum() > 0 for p in model.parameters() if p.numel())


def test_shares_of_attention_add_up_to_one_at_every_word_and_step(model):
    words, lengths, replies, ends = pairs()
    model.grow(slots=6, domain="second")
    of_encoder, of_decoder = model.attention_shares(words, lengths, replies, ends)
    assert len(of_encoder) == len(model.encoder.newest.banks)
    assert len(of_decoder) == len(model.decoder.newest.banks)
    for banks, counts in ((of_encoder, lengths), (of_decoder, ends + 1)):
        there = torch.arange(int(counts.max())) < counts.unsqueeze(1)
        for share in banks:
            assert set(share) == {segment.domain for segment in model.encoder.newest.banks[0].segments}
            torch.testing.assert_close(sum(share.values()), there.double())


# Growing


@pytest.fixture(params=["gru", "lstm, both directions, two layers", "rnn, tied"])
def single(request):
    return responder(**KINDS[request.param]).float()


def trained(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(*pairs()).total.backward()
        optimizer.step()
    return optimizer


def all_scores(model):
    """The scores of every word at every step of the replies."""
    words, lengths, replies, ends = pairs()
    rows = model.rows(words, lengths, teacher_forced(replies, ends))
    return model.heads[-1].output(rows, model.encoder.embedding.weight).detach()


@pytest.mark.parametrize("new", [1, 100])
def test_new_words_leave_old_scores_alone_and_take_no_more_than_their_part_of_the_probability(single, new):
    trained(single)
    before, scores = single(*pairs()).tokens, all_scores(single)
    single.grow(words=torch.randn(new, 6))
    after = all_scores(single)
    assert after.shape[1] == WORDS + new
    torch.testing.assert_close(after[:, :WORDS], scores)
    if not single.settings.tied:
        torch.testing.assert_close(after[:, WORDS:], scores.mean(1, keepdim=True).expand(-1, new))
        assert (single(*pairs()).tokens - before).max() <= math.log(1 + new / WORDS) + 1e-4


def test_slots_and_words_come_behind_the_old_ones_with_zero_moments(single):
    optimizer = trained(single)
    before = {name: p.detach().clone() for name, p in single.named_parameters()}
    moments = {name: optimizer.state[p]["exp_avg"].clone() for name, p in single.named_parameters() if p.numel()}
    rows = torch.randn(2, 6)
    single.grow(slots=3, domain="new", initial_logit_bias=-1.0, words=rows, optimizer=optimizer)
    for name, parameter in single.named_parameters():
        assert torch.equal(old_part(parameter, before[name].shape), before[name]), name
        if name in moments:
            moment = optimizer.state[parameter]["exp_avg"]
            assert torch.equal(old_part(moment, before[name].shape), moments[name])
            torch.testing.assert_close(moment.abs().sum(), moments[name].abs().sum())
    assert torch.equal(single.encoder.embedding.weight[WORDS:], rows)
    for bank in single.banks:
        assert (bank.domains[-1], len(bank)) == ("new", single.settings.slots + 3)


def test_new_hidden_units_come_behind_those_of_their_column_and_old_numbers_keep_their_bits(single):
    trained(single)
    single.add_column(5, 2, "second")  # so that the units of an older column stand before those that grow
    before, old = {name: p.detach().clone() for name, p in single.named_parameters()}, single.settings.hidden
    sides = single.encoder.newest.num_directions
    single.grow(hidden=3, words=torch.randn(2, 6))
    head = single.heads[-1]
    encoded = [unit for side in range(2 * sides) for unit in _units(side, sides, old)]
    decoded = [*range(2 * old)]
    joint = [*encoded, *(sides * (2 * old + 3) + unit for unit in decoded)]
    size = 6 if single.settings.tied else old
    assert torch.equal(head.reading.query[encoded][:, decoded], before["heads.1.reading.query"])
    assert torch.equal(head.reading.weight[:size][:, joint], before["heads.1.reading.weight"])
    assert torch.equal(head.reading.bias[:size], before["heads.1.reading.bias"])
    assert torch.equal(head.output.bias[:WORDS], before["heads.1.output.bias"])
    if head.output.weight is not None:
        assert head.output.weight.shape == (WORDS + 2, old + 3)
        assert torch.equal(head.output.weight[:WORDS, :old], before["heads.1.output.weight"])
    for name, parameter in single.named_parameters():
        if name.startswith(("encoder.columns.0.", "decoder.columns.0.", "heads.0.reading")):
            assert torch.equal(parameter, before[name]), "older columns are as they were"
    single(*pairs()).total.backward()


def _units(side, sides, old):
    """The places of the old units of a side in a state of two columns, the second of which has grown by three."""
    column, direction = divmod(side, sides)
    start = column * sides * old + direction * (old + 3 * column)
    return range(start, start + old)


def test_growth_that_fails_changes_nothing(single):
    optimizer = trained(single)
    before, shape = {name: p.detach().clone() for name, p in single.named_parameters()}, single.shape()
    with pytest.raises(RuntimeError):
        single.grow(slots=3, hidden=2, words=torch.randn(2, 7), optimizer=optimizer)  # vectors of another size
    with pytest.raises(SettingsError, match="optimizer"):
        single.grow(slots=3, optimizer=torch.optim.Adam([single.decoder.start]))
    assert all(torch.equal(p, before[name]) for name, p in single.named_parameters())
    assert single.shape() == shape


def test_a_model_built_from_its_shape_takes_the_weights_and_answers_alike(single):
    single.grow(slots=3, hidden=2, domain="second", words=torch.randn(4, 6))
    single.grow(slots=2, domain="third", initial_logit_bias=-2.0)
    single.add_column(7, 3, "fourth")
    single.grow(hidden=1, domain="fifth", words=torch.randn(1, 6))
    again = rebuild("reply", single.settings, 0, single.shape())
    again.load_state_dict(single.state_dict())
    assert again.shape() == single.shape()
    assert torch.equal(again(*pairs()).tokens, single(*pairs()).tokens)
    assert set(again.attention_shares(*pairs())[1][0]) == {"fourth"}


def test_a_new_column_alone_can_train_and_leaves_the_others_as_they_were(single):
    optimizer = trained(single)
    before = {name: p.detach().clone() for name, p in single.named_parameters()}
    single.requires_grad_(False)
    single.add_column(4, 2, "second")
    optimizer.add_param_group({"params": single.newest_parameters()})
    loss = None
    for _ in range(2):
        optimizer.zero_grad()
        loss = single(*pairs()).total
        loss.backward()
        optimizer.step()
    new = {name for name, p in single.named_parameters() if name not in before and p.numel()}
    assert all(name.startswith(("encoder.columns.1.", "decoder.columns.1.", "heads.1.")) for name in new)
    assert all(torch.equal(dict(single.named_parameters())[name], p) for name, p in before.items())
    assert single(*pairs()).total < loss
