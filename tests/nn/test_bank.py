"""A bank answers queries, grows, and remembers whose slots are whose."""

import math

import pytest
import torch

from memgrow.errors import SettingsError
from memgrow.nn import Growth, MemoryBank


def test_attention_is_a_softmax_over_key_products():
    torch.manual_seed(0)
    bank = MemoryBank(4, 3, slots=6).double()
    query = torch.randn(5, 2, 4, dtype=torch.double)
    content, weights = bank.attend(query)
    scores = torch.exp(query @ bank.keys.T)
    torch.testing.assert_close(weights, scores / scores.sum(-1, keepdim=True))
    torch.testing.assert_close(content, weights @ bank.values)


def test_new_slots_drawn_like_old_ones_take_their_share_at_once():
    torch.manual_seed(0)
    bank = MemoryBank(50, 50, slots=200, domain="old")
    bank.grow(200, "new")
    shares = bank.share(bank.attend(torch.randn(100, 50))[1])
    assert shares["new"].mean().item() == pytest.approx(0.5, abs=0.03)
    torch.testing.assert_close(shares["old"] + shares["new"], torch.ones(100))


def test_quiet_slots_are_let_in_slowly_and_learn_their_bias():
    torch.manual_seed(0)
    bank = MemoryBank(4, 3, slots=10, domain="old")
    assert bank.logit_bias() is None
    bank.grow(10, "new", quiet=5.0)
    assert torch.equal(bank.logit_bias(), torch.tensor([0.0] * 10 + [-5.0] * 10))
    content, weights = bank.attend(torch.randn(7, 4))
    assert bank.share(weights)["new"].max() < 0.05
    content.sum().backward()
    assert bank.bias.grad.shape == (10,)
    assert bank.bias.grad.abs().sum() > 0


def test_quiet_and_ordinary_slots_may_alternate():
    bank = MemoryBank(4, 3)
    for quiet in (2.0, 0.0, 3.0):
        bank.grow(2, quiet=quiet)
    assert bank.logit_bias().tolist() == [-2, -2, 0, 0, -3, -3]
    assert bank.domains == ("1", "2", "3")


def test_without_quiet_there_is_no_bias_to_learn():
    bank = MemoryBank(4, 3, slots=5)
    bank.grow(5, "new")
    assert bank.logit_bias() is None
    assert bank.bias.numel() == 0


def test_growth_keeps_old_slots_to_the_bit_and_says_whose_the_new_ones_are():
    bank = MemoryBank(4, 3, slots=5, domain="a")
    keys, values = bank.keys.detach().clone(), bank.values.detach().clone()
    bank.grow(3, "b")
    bank.grow(2, "a")
    assert torch.equal(bank.keys[:5], keys)
    assert torch.equal(bank.values[:5], values)
    assert [(s.domain, s.start, s.stop) for s in bank.segments] == [("a", 0, 5), ("b", 5, 8), ("a", 8, 10)]
    assert bank.domains == ("a", "b")
    shares = bank.share(torch.full((10,), 0.1))
    assert shares["a"].item() == pytest.approx(0.7)


def test_new_slots_follow_the_documented_distribution():
    torch.manual_seed(0)
    bank = MemoryBank(100, 100)
    bank.grow(2000)
    bound = 1 / math.sqrt(100)
    for parameter in (bank.keys, bank.values):
        assert parameter.abs().max() <= bound
        assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_a_generator_decides_what_is_drawn():
    banks = [MemoryBank(4, 3), MemoryBank(4, 3)]
    for bank in banks:
        bank.grow(5, generator=torch.Generator().manual_seed(7))
    assert torch.equal(banks[0].keys, banks[1].keys)


def test_impossible_growth_is_refused():
    with pytest.raises(SettingsError, match="0 or more slots"):
        MemoryBank(4, 3).grow(-1)
    with pytest.raises(SettingsError, match="quiet by 0 or more"):
        MemoryBank(4, 3).grow(1, quiet=-2.0)


def test_keys_grow_wider_also_while_there_are_no_slots():
    bank, growth = MemoryBank(5, 3), Growth()
    bank.plan(growth, keys=2)
    growth.commit()
    assert bank.keys.shape == (0, 7)
    growth = Growth()
    bank.plan(growth, slots=4, keys=1)
    growth.commit()
    assert bank.keys.shape == (4, 8)
    assert bank.values.shape == (4, 3)
