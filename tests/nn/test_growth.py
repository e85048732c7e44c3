"""Growth keeps what was there: bits, function where it can, and the optimiser's state."""

import pytest
import torch
from torch import nn

from memgrow.errors import SettingsError
from memgrow.models import ModelSettings, PairClassifier, TextClassifier
from memgrow.nn import Growth, MemoryGRU, MemoryLSTM, MemoryRNN, count_parameters, matching_hidden

KINDS = pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU, MemoryRNN], ids=lambda kind: kind.__name__)
GATES = {MemoryLSTM: 4, MemoryGRU: 3, MemoryRNN: 1}


def trained(layer: nn.Module) -> torch.optim.Adam:
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        layer(torch.randn(4, 2, 3))[0].sin().sum().backward()
        optimiser.step()
    return optimiser


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
    optimiser = trained(layer)
    objects = {name: id(parameter) for name, parameter in layer.named_parameters()}
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    moments = {name: optimiser.state[p]["exp_avg"].clone() for name, p in layer.named_parameters() if p.numel()}
    layer.grow(**growth, domain="new", optimiser=optimiser)
    for name, parameter in layer.named_parameters():
        assert objects[name] == id(parameter), "the optimiser must go on holding the parameter"
        assert torch.equal(old_part(parameter, name, GATES[kind], 4), before[name])
        if name in moments:
            moment = optimiser.state[parameter]["exp_avg"]
            assert moment.shape == parameter.shape
            assert torch.equal(old_part(moment, name, GATES[kind], 4), moments[name])
            assert moment.abs().sum().item() == pytest.approx(moments[name].abs().sum().item(), rel=1e-5)
            assert optimiser.state[parameter]["step"] == 3


@KINDS
def test_everything_grown_is_trained_by_the_optimiser_handed_in(kind):
    torch.manual_seed(0)
    layer = kind(3, 4, slots=5, bidirectional=True)
    optimiser = trained(layer)
    layer.grow(slots=3, hidden=2, quiet=1.0, optimiser=optimiser)
    optimiser.zero_grad()
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    layer(torch.randn(4, 2, 3))[0].sin().sum().backward()
    optimiser.step()
    for name, parameter in layer.named_parameters():
        assert (parameter != before[name]).float().mean() > 0.9, name


def test_training_goes_on_with_the_same_optimiser_after_growth():
    torch.manual_seed(0)
    layer = MemoryLSTM(3, 4, slots=5)
    optimiser = trained(layer)
    layer.grow(slots=2, optimiser=optimiser)
    before = layer.banks[0].values.detach().clone()
    optimiser.zero_grad()
    layer(torch.randn(4, 2, 3))[0].sin().sum().backward()
    optimiser.step()
    assert (layer.banks[0].values != before).all()


def test_an_optimiser_that_was_not_handed_in_fails_loudly_rather_than_train_a_part():
    layer = MemoryLSTM(3, 4, slots=5)
    optimiser = trained(layer)
    layer.grow(slots=2)
    layer(torch.randn(4, 2, 3))[0].sum().backward()
    with pytest.raises(RuntimeError):
        optimiser.step()


def test_an_optimiser_that_does_not_hold_a_growing_parameter_is_refused_and_nothing_grows():
    layer = MemoryLSTM(3, 4, slots=5)
    optimiser = torch.optim.Adam([layer.weight_ih_l0, layer.weight_hh_l0])
    with pytest.raises(SettingsError, match="does not hold it"):
        layer.grow(slots=2, optimiser=optimiser)
    assert layer.slots == 5
    assert layer.banks[0].values.shape == (5, 4)


def test_growth_that_fails_on_its_way_changes_nothing():
    layer = MemoryLSTM(3, 4, slots=5)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    growth = Growth()
    layer.plan(growth, slots=2, hidden=1)
    with pytest.raises(ValueError, match="does not cover"):
        growth.enlarge(layer.weight_hh_l0, 0, [(3, 1)], growth.uniform(1.0))
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter, before[name])
    assert layer.hidden_size == 4
    assert layer.slots == 5


@KINDS
def test_the_first_slots_of_a_plain_layer_bring_the_weights_that_read_them(kind):
    torch.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bidirectional=True, slot_size=6)
    plain = layer.weight_ih_l0.detach().clone()
    assert plain.shape[1] == 3
    layer.grow(slots=5, domain="first")
    assert layer.weight_ih_l0.shape[1] == 3 + 6
    assert layer.weight_ih_l1_reverse.shape[1] == 2 * 4 + 6
    assert torch.equal(layer.weight_ih_l0[:, :3], plain)
    layer(torch.randn(4, 2, 3))[0].sum().backward()
    assert layer.banks[0].values.grad.abs().sum() > 0


@KINDS
@pytest.mark.parametrize("slots", [1, 7, 50, 500])
def test_hidden_growth_matches_memory_growth_in_parameters_within_one_unit(kind, slots):
    layer = kind(30, 20, slots=10, num_layers=2, bidirectional=True)
    assert_matched(layer, slots)


@pytest.mark.parametrize("model", [TextClassifier, PairClassifier])
@pytest.mark.parametrize("begin", [0, 25])
def test_the_match_counts_the_whole_model(model, begin):
    settings = ModelSettings(embedding=12, hidden=16, slots=begin, perceptron=10)
    assert_matched(model(settings.kind(settings, 40, None), 3), 25)


def assert_matched(model: nn.Module, slots: int) -> None:
    import copy

    units = matching_hidden(model, slots)
    sizes = {}
    for hidden in (max(units - 1, 0), units, units + 1):
        grown = copy.deepcopy(model)
        grown.grow(hidden=hidden)
        sizes[hidden] = count_parameters(grown)
    with_memory = copy.deepcopy(model)
    with_memory.grow(slots=slots)
    target = count_parameters(with_memory)
    assert abs(sizes[units] - target) == min(abs(size - target) for size in sizes.values())
    assert abs(sizes[units] - target) <= sizes[units + 1] - sizes[units], "within one hidden unit"


def test_the_match_leaves_the_model_alone():
    layer = MemoryLSTM(3, 4, slots=5)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    matching_hidden(layer, 100)
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter, before[name])


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(SettingsError, match="0 or more"):
        MemoryLSTM(3, 4).grow(hidden=-1)


@KINDS
@pytest.mark.parametrize("backend", ["auto", "naive"])
def test_a_loss_that_somebody_still_holds_does_not_stand_in_the_way_of_growth(kind, backend):
    layer = kind(3, 4, slots=2, backend=backend)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(3):
        output, _ = layer(torch.randn(5, 2, 3))
        loss = output.sin().sum()  # alive, with its graph, while the layer grows
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        layer.grow(slots=2, hidden=1, optimiser=optimiser)
    assert layer.slots == 8
    assert layer.hidden_size == 7
