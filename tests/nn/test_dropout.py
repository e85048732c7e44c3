"""Dropout that draws four numbers at once on a CPU drops as torch's own does."""

import copy

import pytest
import torch
from torch import nn

from memgrow.nn.dropout import Dropout, random_halves, take_cheaper_dropout


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_entries_are_dropped_with_the_probability_and_the_rest_is_scaled(share):
    torch.manual_seed(0)
    ones = torch.ones(400, 1003)
    found = Dropout(share)(ones)
    kept = found != 0
    error = (share * (1 - share) / ones.numel()) ** 0.5
    assert float((~kept).double().mean()) == pytest.approx(share, abs=5 * error + 2**-17)
    assert float(found[kept].min()) == float(found[kept].max()) == pytest.approx(1 / (1 - share), rel=1e-4)
    assert float(found.double().mean()) == pytest.approx(1, abs=5 * error / (1 - share))


def test_entries_are_dropped_independently_of_their_neighbours():
    """Four numbers come of one draw, and rows of one call: none of them may tell anything of another."""
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(2000, 64)) != 0).double()
    between = torch.corrcoef(kept.T).fill_diagonal_(0).abs()
    assert float(between.max()) < 5 / 2000**0.5


def test_all_numbers_of_sixteen_bits_are_drawn_equally_often():
    torch.manual_seed(0)
    counts = torch.bincount(random_halves(torch.Size([1 << 22])).int() + (1 << 15), minlength=1 << 16).double()
    expected = 1 << 6
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = (1 << 16) - 1
    assert abs(chi_square - freedom) < 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 0, 3), (33, 5, 9)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_gradients_go_where_numbers_went(shape, kind):
    torch.manual_seed(1)
    states = torch.rand(shape, dtype=kind).add(0.5).requires_grad_()
    found = Dropout(0.3)(states)
    assert (found.shape, found.dtype) == (states.shape, kind)
    found.sum().backward()
    scale = torch.where(found != 0, states.grad.max() if found.numel() else 0, 0).to(kind)
    assert torch.equal(states.grad, scale)
    torch.testing.assert_close(found, states * scale)


def test_the_same_seed_drops_the_same_however_the_states_lie_in_memory():
    states = torch.randn(12, 10)
    drop = Dropout(0.4)
    found = []
    for one in (states, states.T.contiguous().T):
        torch.manual_seed(3)
        found.append(drop(one))
    assert torch.equal(*found)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_nothing_is_dropped_or_drawn_when_answers_are_given(share):
    states, drop = torch.randn(4, 5), Dropout(share).eval()
    before = torch.get_rng_state()
    assert torch.equal(drop(states), states)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_all_and_nothing_are_torchs_own(share):
    states = torch.randn(4, 5)
    assert torch.equal(Dropout(share)(states), nn.Dropout(share)(states))


@pytest.mark.parametrize(("share", "dropped"), [(0.1, 6554), (0.5, 1 << 15), (1e-6, 0), (1 - 1e-6, (1 << 16) - 1)])
def test_of_all_numbers_of_sixteen_bits_the_share_is_dropped(share, dropped, monkeypatch):
    every = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)
    monkeypatch.setattr("memgrow.nn.dropout.random_halves", lambda shape: every.view(shape))
    found = Dropout(share)(torch.ones(1 << 16, dtype=torch.float64))
    assert int((found == 0).sum()) == dropped
    assert float(found.mean()) == pytest.approx(1)


def test_other_devices_and_in_place_are_left_to_torch():
    assert Dropout(0.5)(torch.empty(3, device="meta")).device.type == "meta"
    states = torch.ones(1000)
    assert Dropout(0.5, inplace=True)(states) is states
    assert int((states == 0).sum()) > 0


def test_it_takes_the_place_of_torchs_own_and_of_nothing_else():
    class Own(nn.Dropout):
        pass

    inner = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.2), Own(0.3))
    whole = nn.Sequential(inner, nn.Dropout1d(0.1), nn.Dropout(0.4, inplace=True).eval())
    names = list(copy.deepcopy(whole).state_dict())
    take_cheaper_dropout(whole)
    kinds = [type(module) for module in whole.modules()]
    assert kinds == [nn.Sequential, nn.Sequential, nn.Linear, Dropout, Own, nn.Dropout1d, Dropout]
    found = [(one.p, one.inplace, one.training) for one in whole.modules() if type(one) is Dropout]
    assert found == [(0.2, False, True), (0.4, True, False)]
    assert list(whole.state_dict()) == names
