"""Layers run step by step, as they are and from the states of before their growth."""

import copy

import pytest
import torch

from memgrow.nn import LAYERS
from research.theorem.trace import trace_layers


@pytest.fixture(params=[(cell, layers) for cell in LAYERS for layers in (1, 2)], ids=str)
def layer(request):
    cell, layers = request.param
    torch.manual_seed(0)
    return LAYERS[cell](3, 4, slots=5, slot_size=2, num_layers=layers, bidirectional=True).double()


@pytest.fixture
def steps():
    return torch.randn(6, 2, 3, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def grown(layer, **growth):
    after = copy.deepcopy(layer)
    after.grow(**growth, generator=torch.Generator().manual_seed(2))
    return after


def last_states(layers):
    return torch.cat([trace.after for trace in layers[-1]], dim=-1)


@torch.no_grad()
def test_a_walk_goes_where_the_layer_goes(layer, steps):
    layers = trace_layers(layer, steps)
    torch.testing.assert_close(last_states(layers), layer(steps)[0])
    for trace, weights in zip([trace for traces in layers for trace in traces], layer.reading(steps), strict=True):
        torch.testing.assert_close(trace.weights, weights)


@torch.no_grad()
def test_from_the_old_states_an_unchanged_layer_changes_nothing(layer, steps):
    layers = trace_layers(layer, steps)
    torch.testing.assert_close(last_states(trace_layers(layer, steps, layers)), last_states(layers))


@torch.no_grad()
@pytest.mark.parametrize("growth", [{"slots": 3}, {"hidden": 2}], ids=str)
def test_a_step_starts_from_the_old_states(layer, steps, growth):
    original = trace_layers(layer, steps)
    for olds, news in zip(original, trace_layers(grown(layer, **growth), steps, original), strict=True):
        for old, new in zip(olds, news, strict=True):
            for before, held in zip(old.before, new.before, strict=True):
                assert torch.equal(held[..., : layer.hidden_size], before)
            assert not torch.allclose(new.after[..., : layer.hidden_size], old.after)


@torch.no_grad()
@pytest.mark.parametrize("growth", [{"slots": 3}, {"hidden": 2}], ids=str)
def test_the_first_step_is_that_of_the_grown_layer_in_use(layer, steps, growth):
    after = grown(layer, **growth)
    held, used = trace_layers(after, steps, trace_layers(layer, steps)), trace_layers(after, steps)
    for number, first in enumerate((0, -1)):  # where a direction begins
        torch.testing.assert_close(held[0][number].after[first], used[0][number].after[first])
    assert not torch.allclose(held[0][0].after[-1], used[0][0].after[-1])  # later on changes add up


@torch.no_grad()
def test_slots_that_repeat_the_old_ones_take_half_of_the_attention_and_change_nothing(layer, steps):
    after, original = grown(layer, slots=5), trace_layers(layer, steps)
    for bank in after.banks:
        for entries in (bank.keys, bank.values):
            entries[5:] = entries[:5]
    layers = trace_layers(after, steps, original)
    torch.testing.assert_close(last_states(layers), last_states(original))
    share = layers[0][0].weights[..., 5:].sum(-1)
    torch.testing.assert_close(share, torch.full_like(share, 0.5))
