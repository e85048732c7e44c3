"""Growth keeps what was there: bits, function where it can, and the optimizer's state."""

import copy

import pytest
import torch
from torch import nn, optim

from memgrow.errors import SettingsError
from memgrow.models import ModelSettings, build
from memgrow.nn import (
    Growth,
    MemoryBank,
    MemoryGRU,
    MemoryLSTM,
    MemoryRNN,
    ResidualMemory,
    count_parameters,
    matching_hidden,
)

KINDS = pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU, MemoryRNN], ids=lambda kind: kind.__name__)
GATES = {MemoryLSTM: 4, MemoryGRU: 3, MemoryRNN: 1}
OPTIMIZERS = {
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.1),
    "Adagrad, from 0.1": lambda p: optim.Adagrad(p, lr=0.01, initial_accumulator_value=0.1),
    "Adam, amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW, fused": lambda p: optim.AdamW(p, lr=0.01, fused=True),
    "Adamax": lambda p: optim.Adamax(p, lr=0.01),
    "ASGD": lambda p: optim.ASGD(p, lr=0.01),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: optim.RAdam(p, lr=0.01),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "Rprop": lambda p: optim.Rprop(p, lr=0.01),
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.01, momentum=0.9),
}
EACH_OPTIMIZER = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)


def step(layer: nn.Module, optimizer: optim.Optimizer) -> None:
    optimizer.zero_grad()
    layer(torch.randn(4, 2, 3))[0].sin().sum().backward()
    optimizer.step()


def trained(layer: nn.Module) -> optim.Adam:
    optimizer = optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(3):
        step(layer, optimizer)
    return optimizer


def old_part(grown: torch.Tensor, name: str, gates: int, hidden: int) -> torch.Tensor:
    """The entries that a layer of `hidden` units had, picked out of the grown parameter by torch's layout."""
    if name.endswith("keys"):
        return grown[:5, :hidden]
    if name.endswith("values"):
        return grown[:5]
    if name.endswith("bias"):
        return grown
    blocks = grown.view(gates, -1, *grown.shape[1:])[:, :hidden].flatten(0, 1)
    if name.startswith("weight_hh"):
        return blocks[:, :hidden]
    if name.startswith("weight_ih_l1"):  # reads [forward ; backward ; content]
        wide = (grown.shape[1] - 2) // 2
        return torch.cat((blocks[:, :hidden], blocks[:, wide : wide + hidden], blocks[:, 2 * wide :]), 1)
    return blocks


@KINDS
@pytest.mark.parametrize("growth", [{"slots": 3}, {"hidden": 2}, {"slots": 3, "hidden": 2}])
def test_old_parameters_and_moments_keep_their_bits_and_new_moments_are_zero(kind, growth):
    torch.manual_seed(0)
    layer = kind(3, 4, slots=5, slot_size=2, num_layers=2, bidirectional=True)
    optimizer = trained(layer)
    objects = {name: id(parameter) for name, parameter in layer.named_parameters()}
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    moments = {name: optimizer.state[p]["exp_avg"].clone() for name, p in layer.named_parameters() if p.numel()}
    layer.grow(**growth, domain="new", optimizer=optimizer)
    for name, parameter in layer.named_parameters():
        assert objects[name] == id(parameter), "the optimizer must go on holding the parameter"
        assert torch.equal(old_part(parameter, name, GATES[kind], 4), before[name])
        if name in moments:
            moment = optimizer.state[parameter]["exp_avg"]
            assert moment.shape == parameter.shape
            assert torch.equal(old_part(moment, name, GATES[kind], 4), moments[name])
            assert moment.abs().sum().item() == pytest.approx(moments[name].abs().sum().item(), rel=1e-5)
            assert optimizer.state[parameter]["step"] == 3


@EACH_OPTIMIZER
def test_training_goes_on_and_all_that_is_new_is_trained(make):
    torch.manual_seed(0)
    layer = MemoryLSTM(3, 4, slots=2, bidirectional=True)
    optimizer = make(layer.parameters())
    for _ in range(3):
        step(layer, optimizer)
    layer.grow(slots=3, hidden=2, initial_logit_bias=-1.0, optimizer=optimizer)
    before = copy.deepcopy(layer.state_dict())
    for _ in range(4):  # Rprop does not move in its first step
        step(layer, optimizer)
    for name, parameter in layer.named_parameters():
        assert (parameter != before[name]).float().mean() > 0.9, name
        assert parameter.isfinite().all()


@EACH_OPTIMIZER
def test_old_entries_move_as_if_nothing_had_grown(make):
    torch.manual_seed(0)
    parameter = nn.Parameter(torch.randn(3, 4))
    other = nn.Parameter(parameter.detach().clone())
    ours, theirs = make([parameter]), make([other])
    gradient = torch.randn(3, 4)

    def move(optimizer, held, given):
        held.grad = given.clone()
        optimizer.step()

    for _ in range(3):
        move(ours, parameter, gradient)
        move(theirs, other, gradient)
    growth = Growth(ours)
    growth.enlarge(parameter, 0, [(1, 2), (2, 0)], torch.zeros)
    growth.commit()
    move(ours, parameter, torch.cat((gradient[:1], gradient[:1].expand(2, 4), gradient[1:])))
    move(theirs, other, gradient)
    torch.testing.assert_close(parameter[[0, 3, 4]], other)


@pytest.mark.parametrize(
    ("make", "name", "expected"),
    [
        (lambda p: optim.Adagrad(p, initial_accumulator_value=0.1), "sum", [1.1, 1.1, 0.1]),
        (lambda p: optim.Rprop(p, lr=0.25), "step_size", [0.25, 0.25, 0.25]),
    ],
)
def test_state_of_new_entries_begins_where_the_optimizer_begins(make, name, expected):
    parameter = nn.Parameter(torch.ones(2))
    optimizer = make([parameter])
    parameter.sum().backward()
    optimizer.step()
    growth = Growth(optimizer)
    growth.enlarge(parameter, 0, [(2, 1)], torch.zeros)
    growth.commit()
    assert optimizer.state[parameter][name].tolist() == pytest.approx(expected)


def test_an_optimizer_that_was_not_passed_fails_loudly_rather_than_train_a_part():
    layer = MemoryLSTM(3, 4, slots=5)
    optimizer = trained(layer)
    layer.grow(slots=2)
    with pytest.raises(RuntimeError):
        step(layer, optimizer)


def test_an_optimizer_that_cannot_grow_with_a_parameter_is_refused_and_nothing_grows():
    layer = ResidualMemory(4, key_size=2, slots=2)

    def closure():
        loss = (layer(torch.ones(1, 4)) - 2).square().sum()
        loss.backward()
        return loss

    lbfgs = optim.LBFGS(layer.parameters())
    lbfgs.step(closure)
    odd = optim.Adam(layer.parameters())
    closure()
    odd.step()
    odd.state[layer.bank.keys]["factor"] = torch.ones(7)
    for optimizer in (lbfgs, odd, optim.Adam([layer.bank.keys])):
        with pytest.raises(SettingsError, match="optimizer"):
            layer.grow(1, optimizer=optimizer)
    assert len(layer.bank) == 2


def test_growth_that_fails_on_its_way_changes_nothing():
    layer = MemoryLSTM(3, 4, slots=5)
    before = copy.deepcopy(layer.state_dict())
    growth = Growth()
    layer.plan(growth, slots=2, hidden=1)
    with pytest.raises(ValueError, match="does not cover"):
        growth.enlarge(layer.weight_hh_l0, 0, [(3, 1)], growth.uniform(1.0))
    assert all(torch.equal(tensor, before[name]) for name, tensor in layer.state_dict().items())
    assert (layer.hidden_size, layer.slots) == (4, 5)
    with pytest.raises(SettingsError, match="0 or more"):
        layer.grow(hidden=-1)


@KINDS
def test_the_first_slots_of_a_plain_layer_bring_the_weights_that_read_them(kind):
    torch.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bidirectional=True, slot_size=6)
    plain = layer.weight_ih_l0.detach().clone()
    layer.grow(slots=5, domain="first")
    assert layer.weight_ih_l0.shape[1] == 3 + 6
    assert layer.weight_ih_l1_reverse.shape[1] == 2 * 4 + 6
    assert torch.equal(layer.weight_ih_l0[:, :3], plain)
    layer(torch.randn(4, 2, 3))[0].sum().backward()
    assert layer.banks[0].values.grad.abs().sum() > 0


@KINDS
@pytest.mark.parametrize("backend", ["auto", "naive"])
def test_a_loss_that_is_still_held_does_not_hinder_growth(kind, backend):
    layer = kind(3, 4, slots=2, backend=backend)
    optimizer = optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(3):
        loss = layer(torch.randn(5, 2, 3))[0].sin().sum()  # alive, with its graph, while the layer grows
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        layer.grow(slots=2, hidden=1, optimizer=optimizer)
    assert (layer.slots, layer.hidden_size) == (8, 7)


MODELS = {
    "layer": lambda: MemoryGRU(30, 20, slots=10, num_layers=2, bidirectional=True),
    "text": lambda: build("text", ModelSettings(embedding=12, hidden=16, slots=0, perceptron=10), 40, 3),
    "pair": lambda: build("pair", ModelSettings(embedding=12, hidden=16, slots=25, perceptron=10), 40, 3),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("slots", [1, 25, 500])
def test_hidden_growth_matches_memory_growth_in_parameters_within_one_unit(make, slots):
    model = make()
    before = copy.deepcopy(model.state_dict())
    units, sizes = matching_hidden(model, slots), {}
    for hidden in (max(units - 1, 0), units, units + 1):
        grown = copy.deepcopy(model)
        grown.grow(hidden=hidden)
        sizes[hidden] = count_parameters(grown)
    with_memory = copy.deepcopy(model)
    with_memory.grow(slots=slots)
    target = count_parameters(with_memory)
    assert abs(sizes[units] - target) == min(abs(size - target) for size in sizes.values())
    assert abs(sizes[units] - target) <= sizes[units + 1] - sizes[units]
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_first_steps_of_new_rows_are_as_large_as_documented():
    bank = MemoryBank(4, 4, slots=1)
    optimizer = optim.Adam([bank.keys, bank.values], lr=0.01)
    sizes = []
    for step in range(5030):
        if step == 5000:
            bank.grow(1, optimizer=optimizer)
        before = bank.values.detach().clone()
        bank.values.grad = torch.ones_like(bank.values)
        optimizer.step()
        sizes.append((bank.values.detach() - before).abs().amax(1) / 0.01)
    old, new = torch.stack(sizes[5000:]).T
    assert old.tolist() == pytest.approx([1] * 30, rel=0.02)
    assert new[0].item() == pytest.approx(3.2, rel=0.02)
    assert new.max().item() == pytest.approx(6.6, rel=0.02)
