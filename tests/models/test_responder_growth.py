"""A responder grows on both sides at once, keeps what was there, and can be built anew from its shape."""

import copy
import math

import pytest
import torch
from memgrow.methods.plugin import old_part

from memgrow.errors import SettingsError
from memgrow.models import ModelSettings, build, rebuild
from memgrow.nn import count_parameters, matching_hidden

WORDS = 11
KINDS = {
    "gru": {"cell": "gru", "bidirectional": False},
    "lstm, both directions, two layers": {"cell": "lstm", "layers": 2, "slot_size": 3},
    "tied": {"cell": "gru", "bidirectional": False, "tied": True},
    "no memory at first": {"cell": "rnn", "slots": 0},
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def model(request):
    torch.manual_seed(0)
    return build(
        "reply", ModelSettings(**{"embedding": 6, "hidden": 5, "slots": 4, **request.param}), WORDS, domain="first"
    )


def pairs():
    torch.manual_seed(1)
    lengths, ends = torch.tensor([4, 6, 1]), torch.tensor([3, 0, 5])
    return torch.randint(1, WORDS, (3, 6)), lengths, torch.randint(1, WORDS, (3, 5)), ends


def trained(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(*pairs()).mean.backward()
        optimizer.step()
    return optimizer


def all_scores(model):
    """The scores of every word at every step of the replies."""
    from memgrow.models.responder import teacher_forced

    words, lengths, replies, ends = pairs()
    rows = model.rows(words, lengths, teacher_forced(replies, ends))
    return model.heads[-1].output(rows, model.encoder.embedding.weight).detach()


def test_new_words_leave_the_scores_of_old_ones_as_they_were(model):
    trained(model)
    before, loss = all_scores(model), model(*pairs()).total.item()
    model.grow(words=torch.randn(5, 6))
    after = all_scores(model)
    assert after.shape[1] == WORDS + 5
    torch.testing.assert_close(after[:, :WORDS], before)
    assert model(*pairs()).total.item() > loss, "there is more to choose from"


@pytest.mark.parametrize("new", [1, 5, 100])
def test_new_words_take_no_more_than_their_part_of_the_probability(new):
    torch.manual_seed(0)
    model = build("reply", ModelSettings(cell="gru", embedding=6, hidden=5, slots=4), WORDS)
    trained(model)
    with torch.no_grad():  # a model that is sure of itself
        model.heads[-1].output.weight.mul_(9)
    before, scores = model(*pairs()).tokens, all_scores(model)
    model.grow(words=torch.randn(new, 6))
    torch.testing.assert_close(all_scores(model)[:, WORDS:], scores.mean(1, keepdim=True).expand(-1, new))
    risen = model(*pairs()).tokens - before
    assert risen.max() <= math.log(1 + new / WORDS) + 1e-4


def test_slots_and_words_come_behind_the_old_ones_with_zero_moments(model):
    optimizer = trained(model)
    objects = {name: id(parameter) for name, parameter in model.named_parameters()}
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    moments = {name: optimizer.state[p]["exp_avg"].clone() for name, p in model.named_parameters() if p.numel()}
    rows = torch.randn(2, 6)
    model.grow(slots=3, domain="new", initial_logit_bias=-1.0, words=rows, optimizer=optimizer)
    for name, parameter in model.named_parameters():
        assert objects[name] == id(parameter), "the optimizer must go on holding the parameter"
        assert torch.equal(old_part(parameter, before[name].shape), before[name]), name
        if name in moments:
            moment = optimizer.state[parameter]["exp_avg"]
            assert moment.shape == parameter.shape
            assert torch.equal(old_part(moment, before[name].shape), moments[name])
            torch.testing.assert_close(moment.abs().sum(), moments[name].abs().sum())
    assert torch.equal(model.encoder.embedding.weight[WORDS:], rows)
    for side in (model.encoder, model.decoder):
        for bank in side.newest.banks:
            assert bank.domains[-1] == "new"
            assert len(bank) == model.settings.slots + 3


def test_hidden_units_stand_behind_those_of_their_column_and_old_numbers_keep_their_bits(model):
    trained(model)
    model.add_column(5, 2, "second")  # so that the units of an older column stand before those that grow
    before, old = {name: p.detach().clone() for name, p in model.named_parameters()}, model.settings.hidden
    sides = model.encoder.newest.num_directions
    model.grow(hidden=3, words=torch.randn(2, 6))
    head = model.heads[-1]
    encoded = [unit for side in range(2 * sides) for unit in _units(side, sides, old)]
    decoded = [*range(2 * old)]
    joint = [*encoded, *(sides * (2 * old + 3) + unit for unit in decoded)]
    size = 6 if model.settings.tied else old
    assert torch.equal(head.reading.query[encoded][:, decoded], before["heads.1.reading.query"])
    assert torch.equal(head.reading.weight[:size][:, joint], before["heads.1.reading.weight"])
    assert torch.equal(head.reading.bias[:size], before["heads.1.reading.bias"])
    assert torch.equal(head.output.bias[:WORDS], before["heads.1.output.bias"])
    if head.output.weight is not None:
        assert head.output.weight.shape == (WORDS + 2, old + 3)
        assert torch.equal(head.output.weight[:WORDS, :old], before["heads.1.output.weight"])
    for name, parameter in model.named_parameters():
        if name.startswith(("encoder.columns.0.", "decoder.columns.0.", "heads.0.reading")):
            assert torch.equal(parameter, before[name]), "older columns are as they were"
    model(*pairs()).mean.backward()


def _units(side, sides, old):
    """The places of the old units of a side in a state of two columns, the second of which has grown by three."""
    column, direction = divmod(side, sides)
    start = column * sides * old + direction * (old + 3 * column)
    return range(start, start + old)


def test_everything_grown_is_trained_by_the_optimizer_handed_in(model):
    optimizer = trained(model)
    model.grow(slots=3, hidden=2, initial_logit_bias=-1.0, words=torch.randn(2, 6), optimizer=optimizer)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer.zero_grad()
    words, lengths, _, ends = pairs()
    model(words, lengths, torch.randint(2, WORDS + 2, (3, 5)), ends).mean.backward()
    optimizer.step()
    for name, parameter in model.named_parameters():
        if name != "encoder.embedding.weight":  # not every word occurs
            assert (parameter != before[name]).double().mean() > 0.8, name


def test_growth_that_fails_changes_nothing(model):
    optimizer = trained(model)
    before, shape = {name: p.detach().clone() for name, p in model.named_parameters()}, model.shape()
    with pytest.raises(RuntimeError):
        model.grow(slots=3, hidden=2, words=torch.randn(2, 7), optimizer=optimizer)  # vectors of another size
    with pytest.raises(SettingsError, match="does not hold it"):
        model.grow(slots=3, optimizer=torch.optim.Adam([model.decoder.start]))
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert model.shape() == shape


@pytest.mark.parametrize("slots", [1, 25, 400])
def test_hidden_growth_matches_the_slots_of_both_banks_in_parameters(model, slots):
    counts = {}
    units = matching_hidden(model, slots)
    for hidden in (units - 1, units, units + 1):
        grown = copy.deepcopy(model)
        grown.grow(hidden=max(hidden, 0))
        counts[hidden] = count_parameters(grown)
    model.grow(slots=slots)
    off = {hidden: abs(count - count_parameters(model)) for hidden, count in counts.items()}
    assert min(off.values()) == off[units]
    assert units > 0 or slots == 1


def test_a_model_built_from_its_shape_takes_the_weights_and_answers_alike(model):
    model.grow(slots=3, hidden=2, domain="second", words=torch.randn(4, 6))
    model.grow(slots=2, domain="third", initial_logit_bias=-2.0)
    model.add_column(7, 3, "fourth")
    model.grow(hidden=1, domain="fifth", words=torch.randn(1, 6))
    again = rebuild("reply", model.settings, 0, model.shape())
    again.load_state_dict(model.state_dict())
    assert again.shape() == model.shape()
    assert torch.equal(again(*pairs()).tokens, model(*pairs()).tokens)
    assert set(again.reading(*pairs()).decoder[0]) == {"fourth"}


def test_a_new_column_alone_can_train_and_leaves_the_others_as_they_were(model):
    optimizer = trained(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.requires_grad_(False)
    model.add_column(4, 2, "second", optimizer=optimizer)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(*pairs()).mean
        loss.backward()
        optimizer.step()
    new = {name for name, p in model.named_parameters() if name not in before and p.numel()}
    assert {name.rsplit(".", 1)[0].removesuffix(".banks.0") for name in new} >= {"encoder.columns.1", "heads.1.output"}
    assert all(name.startswith(("encoder.columns.1.", "decoder.columns.1.", "heads.1.")) for name in new)
    assert all(torch.equal(dict(model.named_parameters())[name], p) for name, p in before.items())
    assert model(*pairs()).mean < loss
