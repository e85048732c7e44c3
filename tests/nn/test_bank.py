"""A bank answers queries, grows, and knows whose slots are whose."""

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


def test_attention_sums_to_one_however_far_apart_the_logits_are():
    bank = MemoryBank(1, 3, slots=3)
    bank.keys.data, bank.values.data = torch.tensor([[1e30], [-1e30], [0.0]]), torch.eye(3)
    content, weights = bank.attend(torch.tensor([[1e8], [-1e8], [0.0]]))
    torch.testing.assert_close(weights.sum(-1), torch.ones(3))
    assert content.isfinite().all()


def test_slots_with_an_initial_logit_bias_start_with_little_attention_and_learn_it():
    torch.manual_seed(0)
    bank = MemoryBank(4, 3, slots=10, domain="old")
    assert bank.logit_bias() is None
    bank.grow(10, "new", initial_logit_bias=-5.0)
    bank.grow(2, "plain")
    assert bank.logit_bias().tolist() == [0.0] * 10 + [-5.0] * 10 + [0.0] * 2
    content, weights = bank.attend(torch.randn(7, 4))
    assert bank.share(weights)["new"].max() < 0.05
    content.sum().backward()
    assert bank.bias.grad.shape == (10,)
    assert bank.bias.grad.abs().sum() > 0


def test_growth_keeps_old_slots_to_the_bit_and_names_the_owners():
    bank = MemoryBank(4, 3, slots=5, domain="a")
    keys, values = bank.keys.detach().clone(), bank.values.detach().clone()
    bank.grow(3)
    bank.grow(2, "a")
    assert torch.equal(bank.keys[:5], keys)
    assert torch.equal(bank.values[:5], values)
    assert [(s.domain, s.start, s.stop) for s in bank.segments] == [("a", 0, 5), ("2", 5, 8), ("a", 8, 10)]
    assert bank.domains == ("a", "2")
    assert bank.share(torch.full((10,), 0.1))["a"].item() == pytest.approx(0.7)


def test_new_slots_follow_the_documented_distribution_and_the_generator():
    banks = [MemoryBank(100, 100), MemoryBank(100, 100)]
    for bank in banks:
        bank.grow(2000, generator=torch.Generator().manual_seed(7))
    assert torch.equal(banks[0].keys, banks[1].keys)
    for parameter in (banks[0].keys, banks[0].values):
        assert parameter.abs().max() <= 0.1
        assert parameter.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.02)


def test_keys_grow_wider_also_while_there_are_no_slots():
    bank = MemoryBank(5, 3)
    for planned in ({"keys": 2}, {"slots": 4, "keys": 1}):
        growth = Growth()
        bank.plan(growth, **planned)
        growth.commit()
    assert bank.keys.shape == (4, 8)
    assert bank.values.shape == (4, 3)


def test_slots_without_a_name_join_no_other_domain():
    bank = MemoryBank(4, 4)
    for name in ("2", None, "4", None):
        bank.grow(1, name)
    assert len(bank.domains) == 4


@pytest.mark.parametrize("wrong", [{"slots": -1}, {"slots": 1, "initial_logit_bias": 2.0}])
def test_impossible_growth_is_refused(wrong):
    with pytest.raises(SettingsError):
        MemoryBank(4, 3).grow(**wrong)


def test_the_old_spelling_of_optimizer_still_works():
    bank = MemoryBank(4, 3, slots=2)
    optimizer = torch.optim.Adam(bank.parameters())
    with pytest.warns(DeprecationWarning, match="optimizer"):
        bank.grow(1, optimiser=optimizer)
    with pytest.raises(TypeError, match="optimise"):
        bank.grow(1, optimise=optimizer)
