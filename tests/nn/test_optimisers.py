"""Every optimiser of torch's goes on after growth: what it knew stays, what is new is trained."""

import copy

import pytest
import torch
from torch import nn, optim

from memgrow.errors import SettingsError
from memgrow.nn import Growth, MemoryLSTM, ResidualMemory

OPTIMISERS = {
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.1),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.01),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.01),
    "Adagrad, from 0.1": lambda p: optim.Adagrad(p, lr=0.01, initial_accumulator_value=0.1),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
    "Adam, amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01),
    "AdamW, fused": lambda p: optim.AdamW(p, lr=0.01, fused=True),
    "Adamax": lambda p: optim.Adamax(p, lr=0.01),
    "ASGD": lambda p: optim.ASGD(p, lr=0.01),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: optim.RAdam(p, lr=0.01),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "Rprop": lambda p: optim.Rprop(p, lr=0.01),
    "SGD": lambda p: optim.SGD(p, lr=0.01),
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.01, momentum=0.9),
}
EACH = pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS)
GROWTHS = [
    {"slots": 3, "hidden": 2, "quiet": 1.0},
    pytest.param({"slots": 3}, marks=pytest.mark.extras),
    pytest.param({"hidden": 2}, marks=pytest.mark.extras),
]


def step(layer, optimiser, seed=0):
    x = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(seed))
    optimiser.zero_grad()
    layer(x)[0].sin().sum().backward()
    optimiser.step()


@EACH
@pytest.mark.parametrize("growth", GROWTHS, ids=["both, quiet", "slots", "hidden"])
def test_training_goes_on_and_all_that_is_new_is_trained(make, growth):
    torch.manual_seed(0)
    layer = MemoryLSTM(3, 4, slots=1, bidirectional=True)
    optimiser = make(layer.parameters())
    for seed in range(3):
        step(layer, optimiser, seed)
    layer.grow(**growth, optimiser=optimiser)
    before = copy.deepcopy(layer.state_dict())
    for seed in range(4):  # Rprop stands still in its first step
        step(layer, optimiser, seed)
    for name, parameter in layer.named_parameters():
        if parameter.numel() and "keys" not in name:  # keys of a first slot alone have no gradient
            moved = (parameter != before[name]).float().mean()
            assert moved > 0.9, name
            assert torch.isfinite(parameter).all()


@EACH
def test_a_parameter_of_one_entry_grows_too(make):
    parameter = nn.Parameter(torch.ones(1))
    optimiser = make([parameter])
    for _ in range(2):
        parameter.square().sum().backward()
        optimiser.step()
        growth = Growth(optimiser)
        growth.enlarge(parameter, 0, [(len(parameter), 2)], torch.ones)
        growth.commit()
    assert parameter.shape == (5,)
    assert parameter[0] != 1, "the first entry is trained"
    assert parameter[3:].tolist() == [1, 1], "the newest entries are as they were drawn"


@EACH
def test_old_entries_are_moved_as_if_nothing_had_grown(make):
    torch.manual_seed(0)
    parameter = nn.Parameter(torch.randn(3, 4))
    other = nn.Parameter(parameter.detach().clone())
    ours, theirs = make([parameter]), make([other])
    gradient = torch.randn(3, 4)

    def move(optimiser, held, given):
        held.grad = given
        optimiser.step()

    for _ in range(3):
        move(ours, parameter, gradient.clone())
        move(theirs, other, gradient.clone())
    growth = Growth(ours)
    growth.enlarge(parameter, 0, [(1, 2), (2, 0)], torch.zeros)
    growth.commit()
    wide = torch.cat((gradient[:1], gradient[:1].expand(2, 4), gradient[1:]))
    move(ours, parameter, wide)
    move(theirs, other, gradient.clone())
    if isinstance(ours, optim.Adafactor):  # what one row does depends on all others, by its definition
        state = ours.state[parameter]
        assert state["row_var"].shape == (5, 1)
        assert state["col_var"].shape == (1, 4)
    else:
        torch.testing.assert_close(parameter[[0, 3, 4]], other)


def test_what_adagrad_has_summed_of_new_entries_begins_where_it_began_for_all():
    parameter = nn.Parameter(torch.ones(2))
    optimiser = optim.Adagrad([parameter], initial_accumulator_value=0.1)
    parameter.sum().backward()
    optimiser.step()
    growth = Growth(optimiser)
    growth.enlarge(parameter, 0, [(2, 2)], torch.ones)
    growth.commit()
    assert optimiser.state[parameter]["sum"].tolist() == pytest.approx([1.1, 1.1, 0.1, 0.1])


def test_adafactor_grows_along_both_dimensions_of_a_parameter_of_one_row():
    parameter = nn.Parameter(torch.ones(1, 1))
    optimiser = optim.Adafactor([parameter])
    parameter.sum().backward()
    optimiser.step()
    growth = Growth(optimiser)
    growth.enlarge(parameter, 0, [(1, 2)], torch.zeros)
    growth.enlarge(parameter, 1, [(1, 3)], torch.zeros)
    growth.commit()
    assert optimiser.state[parameter]["row_var"].shape == (3, 1)
    assert optimiser.state[parameter]["col_var"].shape == (1, 4)
    growth = Growth(optimiser)
    growth.select(parameter, torch.tensor([0, 2]))
    growth.commit()
    parameter.sum().backward()
    optimiser.step()
    assert optimiser.state[parameter]["row_var"].shape == (2, 1)


def test_new_entries_of_rprop_begin_with_its_rate():
    parameter = nn.Parameter(torch.ones(2))
    optimiser = optim.Rprop([parameter], lr=0.25)
    parameter.sum().backward()
    optimiser.step()
    growth = Growth(optimiser)
    growth.enlarge(parameter, 0, [(2, 1)], torch.zeros)
    growth.commit()
    assert optimiser.state[parameter]["step_size"][2] == 0.25


def test_an_optimiser_whose_memory_cannot_grow_is_refused_and_nothing_grows():
    layer = ResidualMemory(4, key_size=2, slots=2)
    optimiser = optim.LBFGS(layer.parameters())

    def closure():
        optimiser.zero_grad()
        loss = (layer(torch.ones(1, 4)) - 2).square().sum()
        loss.backward()
        return loss

    layer.grow(1, optimiser=optimiser)  # before its first step it remembers nothing
    optimiser.step(closure)
    with pytest.raises(SettingsError, match="LBFGS remembers all parameters as one"):
        layer.grow(1, optimiser=optimiser)
    other = optim.Adam(layer.parameters())
    closure()
    other.step()
    other.state[layer.bank.keys]["factor"] = torch.ones(7)
    with pytest.raises(SettingsError, match=r"remembers factor of shape \(7,\).*make a new optimiser"):
        layer.grow(1, optimiser=other)
    assert len(layer.bank) == 3
