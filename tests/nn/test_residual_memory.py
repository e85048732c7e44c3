"""A memory in the residual stream: growth keeps every bit, reading equals its naive twin, slots have owners."""

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from memgrow.errors import SettingsError
from memgrow.nn import Growth, ResidualMemory
from memgrow.nn.residual_memory import SHARPNESS, _best_slots

WIDTH, KEY = 24, 8
INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bfloat16: torch.int16}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Equal only where the bits are: 0.0 and -0.0 differ."""
    return tensor.detach().contiguous().view(INTEGERS[tensor.dtype])


def states(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    drawn = torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(seed)).to(dtype)
    drawn.view(-1)[::5] = 0.0
    drawn.view(-1)[::7] = -0.0
    return drawn


def memory(*segments: int, best: int = 4, trained: bool = True) -> ResidualMemory:
    torch.manual_seed(0)
    layer = ResidualMemory(WIDTH, key_size=KEY, best=best)
    for number, slots in enumerate(segments):
        layer.grow(slots, f"domain {number}")
    if trained and segments:
        train(layer)
    return layer


def train(layer: ResidualMemory, steps: int = 3) -> torch.optim.Adam:
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        given = states(6, 5, seed=step).to(layer.bank.values.dtype)
        (layer(given) - given.roll(1, -1)).square().sum().backward()
        optimizer.step()
    return optimizer


def read_naively(memory: ResidualMemory, states: torch.Tensor) -> torch.Tensor:
    """What slots add to states (..., width), position by position."""
    rows = []
    for state in states.reshape(-1, states.shape[-1]):
        content = torch.zeros_like(state)
        for number, segment in enumerate(memory.bank.segments):
            projected = memory.query.weight[number * memory.key_size : (number + 1) * memory.key_size] @ state
            query = (projected - projected.mean()) / (projected.var(correction=0) + 1e-5).sqrt()
            keys = memory.bank.keys[segment.start : segment.stop]
            values = memory.bank.values[segment.start : segment.stop]
            logits = [query @ (key / key.norm() * SHARPNESS) for key in keys]
            if (bias := memory.bank.logit_bias()) is not None:
                logits = [logit + b for logit, b in zip(logits, bias[segment.start : segment.stop], strict=True)]
            last = sorted((logit.item() for logit in logits), reverse=True)[: memory.best][-1]
            read = [slot for slot, logit in enumerate(logits) if logit.item() >= last]
            weights = torch.softmax(torch.stack([torch.zeros_like(logits[0]), *(logits[slot] for slot in read)]), 0)
            for weight, slot in zip(weights[1:], read, strict=True):
                content = content + weight * values[slot]
        rows.append(content)
    return torch.stack(rows).view_as(states)


@pytest.mark.parametrize(
    ("dtype", "autocast", "given"),
    [
        (torch.float32, False, torch.float32),
        (torch.float64, False, torch.float64),
        (torch.float32, True, torch.bfloat16),
        (torch.bfloat16, False, torch.bfloat16),
    ],
    ids=["float32", "float64", "autocast", "bfloat16"],
)
@pytest.mark.parametrize("before", [(), (5, 1, 33)], ids=str)
def test_growing_changes_no_bit_of_any_output(dtype, autocast, given, before):
    layer = memory(*before).to(dtype)
    texts = states(3, 7, dtype=given)
    with torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
        old = layer(texts)
        for slots, bias in ((1, 0.0), (3, -2.0), (64, 0.0)):
            layer.grow(slots, "new", initial_logit_bias=bias)
            new = layer(texts)
            assert old.dtype == new.dtype == texts.dtype
            assert torch.equal(bits(old), bits(new))
    assert before == () or not torch.equal(new, texts)


def test_growing_changes_no_bit_whatever_was_learned_and_grown_before():
    layer = memory()
    for number, slots in enumerate((16, 5, 1, 40)):
        old = layer(states(4, 9))
        layer.grow(slots, f"domain {number}")
        assert torch.equal(bits(layer(states(4, 9))), bits(old))
        train(layer)
        assert not torch.equal(layer(states(4, 9)), old)


def test_an_old_domain_adds_the_same_bits_however_much_the_new_one_has_learned():
    layer = memory(7, 20)
    old = layer(states(4, 9))
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    layer.grow(11, "new")
    train(layer)
    with torch.no_grad():  # what is old stays frozen
        for name, tensor in before.items():
            layer.get_parameter(name)[: len(tensor)] = tensor
    assert not torch.equal(layer(states(4, 9)), old)
    with torch.no_grad():
        layer.bank.values[-len(layer.bank.segments[-1]) :] = 0
    assert torch.equal(bits(layer(states(4, 9))), bits(old))


def test_an_empty_memory_returns_its_states_and_leaves_no_trace():
    layer, given = ResidualMemory(WIDTH), states(2, 3)
    assert layer(given) is given
    assert layer.state_dict() == {}
    assert layer.weights(given).shape == (2, 3, 0)
    layer.load_state_dict({})


@pytest.mark.parametrize("bias", [0.0, -3.0])
@pytest.mark.parametrize("best", [1, 4, 100])
@pytest.mark.parametrize("segments", [(1,), (12, 3, 30)], ids=str)
def test_reading_equals_its_naive_twin_in_outputs_and_gradients(segments, best, bias):
    torch.manual_seed(0)
    layer = ResidualMemory(WIDTH, key_size=KEY, best=best).double()
    for slots in segments:
        layer.grow(slots, initial_logit_bias=bias)
    nn.init.normal_(layer.bank.values)
    given = states(2, 5, dtype=torch.double).requires_grad_()
    inputs = [given, *(p for p in layer.parameters() if p.numel())]
    results = []
    for output in (layer(given), given + read_naively(layer, given)):
        gradients = torch.autograd.grad((output * output.detach().cos()).sum(), inputs)
        results.append((output, *gradients))
    torch.testing.assert_close(results[0], results[1])
    assert all(gradient.any() for gradient in results[0])


def test_slots_that_tie_for_the_last_position_are_all_read():
    layer = ResidualMemory(WIDTH, key_size=KEY, best=3, slots=12).double()
    nn.init.normal_(layer.bank.values)
    with torch.no_grad():  # products with these keys are exact, so that equal keys have equal logits
        layer.bank.keys.copy_(torch.eye(KEY)[torch.arange(12) // 4])
    given = states(2, 5, dtype=torch.double)
    assert set((layer.weights(given) > 0).sum(-1).flatten().tolist()) == {4}
    torch.testing.assert_close(layer(given), given + read_naively(layer, given))


@pytest.mark.parametrize(("slots", "best"), [(1, 16), (16, 16), (40, 16), (40, 1)])
def test_weights_are_those_of_the_best_slots_and_nothing(slots, best):
    logits = torch.randn(50, slots, dtype=torch.double) * 4
    weights = _best_slots(logits, best)
    assert ((weights > 0).sum(-1) == min(slots, best)).all()
    nothing = 1 - weights.sum(-1)
    assert (nothing > 0).all()
    torch.testing.assert_close((weights / nothing[:, None]).amax(-1).log(), logits.amax(-1))


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e15])
def test_extreme_states_give_finite_outputs_and_gradients(size):
    layer = ResidualMemory(6, key_size=4, best=3, slots=2000, domain="a")
    layer.grow(5, "b", initial_logit_bias=-1e4)
    with torch.no_grad():
        layer.bank.values.normal_()
        layer.bank.keys[:3] = 0.0  # a key without a direction
    given = (torch.randn(2, 3, 6) * size).requires_grad_()
    out = layer(given)
    out.sin().sum().backward()
    found = [out, given.grad, *(p.grad for p in layer.parameters() if p.grad is not None)]
    assert all(tensor.isfinite().all() for tensor in found)


def test_shares_of_each_domain_are_parts_of_one():
    layer = memory(6, 9)
    shares = layer.bank.share(layer.weights(states(3, 5)))
    assert list(shares) == ["domain 0", "domain 1"]
    for share in shares.values():
        assert share.shape == (3, 5)
        assert (share >= 0).all()
        assert (share <= 1 + 1e-6).all()


def test_new_rows_are_at_the_end_of_each_parameter_and_the_optimizer_goes_on():
    layer = memory(6, trained=False)
    optimizer = train(layer)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    layer.grow(9, "new", optimizer=optimizer)
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter[: len(before[name])], before[name])
        if len(parameter):
            assert optimizer.state[parameter]["exp_avg"].shape == parameter.shape


def test_growth_can_be_part_of_a_larger_one_or_not_happen():
    layer = memory(6, trained=False)
    growth = Growth()
    layer.plan(growth, slots=3, domain="new")
    assert (len(layer.bank), len(layer.query.weight), len(layer.growths)) == (6, KEY, 1)
    growth.commit()
    assert (len(layer.bank), len(layer.query.weight), len(layer.growths)) == (9, 2 * KEY, 2)
    layer.grow(0, "none")
    assert len(layer.growths) == 2


def test_a_domain_that_returns_gets_new_slots_and_a_new_query():
    layer = memory(6, 9)
    layer.grow(4, "domain 0")
    assert layer.bank.domains == ("domain 0", "domain 1")
    newest = nn.functional.linear(states(3), layer.query.weight[2 * KEY :])
    torch.testing.assert_close(layer.queries(states(3), "domain 0"), nn.functional.layer_norm(newest, (KEY,)))


def test_keys_start_at_a_sample_of_queries_or_close_to_few():
    layer = memory(6, 9)
    old = layer.bank.keys[:6].detach().clone()
    queries = layer.queries(states(40), "domain 1")
    layer.start_keys("domain 1", queries, torch.Generator().manual_seed(1))
    assert torch.equal(layer.bank.keys[:6], old)
    likeness = layer.bank.keys[6:] @ nn.functional.normalize(queries, dim=-1).T
    torch.testing.assert_close(likeness.amax(-1), torch.ones(9))
    assert len(set(likeness.argmax(-1).tolist())) == 9
    again = copy.deepcopy(layer)
    again.start_keys("domain 1", queries, torch.Generator().manual_seed(1))
    assert torch.equal(again.bank.keys, layer.bank.keys)
    layer.start_keys("domain 1", queries[:2])
    likeness = layer.bank.keys[6:] @ nn.functional.normalize(queries[:2], dim=-1).T
    assert (likeness.amax(-1) > 0.95).all()
    assert len(layer.bank.keys.unique(dim=0)) == 15


def test_impossible_memories_are_refused():
    for wrong in ({"key_size": 1}, {"best": 0}):
        with pytest.raises(SettingsError):
            ResidualMemory(WIDTH, **wrong)
    with pytest.raises(SettingsError, match="domains with slots: domain 0"):
        memory(3).queries(states(1), "x")
    with pytest.raises(SettingsError, match="imported"):
        memory().restore([{"slots": 3, "domain": "x", "quiet": 0.0, "apart": True}])
