"""A memory in the residual stream: growth keeps every bit, the fast reading equals its twin, slots have owners."""

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from memgrow.errors import SettingsError
from memgrow.nn import READINGS, Growth, ResidualMemory, count_parameters
from memgrow.nn.readings import best_slots
from memgrow.nn.residual_memory import SHARPNESS, read_naively

WIDTH, KEY = 24, 8
EACH_READING = pytest.mark.parametrize("reading", READINGS)
INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bfloat16: torch.int16}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Equal only where the bits are: 0.0 and -0.0 differ."""
    return tensor.detach().contiguous().view(INTEGERS[tensor.dtype])


def states(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    drawn = torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(seed)).to(dtype)
    drawn.view(-1)[::5] = 0.0
    drawn.view(-1)[::7] = -0.0
    return drawn


def memory(*segments: int, best: int = 4, reading: str = "slots", trained: bool = True) -> ResidualMemory:
    torch.manual_seed(0)
    layer = ResidualMemory(WIDTH, key_size=KEY, best=best, reading=reading)
    for number, slots in enumerate(segments):
        layer.grow(slots, f"domain {number}")
    if trained and segments:
        train(layer)
    return layer


def train(layer: ResidualMemory, steps: int = 3) -> torch.optim.Adam:
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.05)
    for step in range(steps):
        optimiser.zero_grad()
        given = states(6, 5, seed=step).to(layer.bank.values.dtype)
        (layer(given) - given.roll(1, -1)).square().sum().backward()
        optimiser.step()
    return optimiser


PRECISIONS = pytest.mark.parametrize(
    ("dtype", "autocast", "given"),
    [
        (torch.float32, False, torch.float32),
        (torch.float64, False, torch.float64),
        (torch.float32, True, torch.float32),
        (torch.float32, True, torch.bfloat16),
        (torch.bfloat16, False, torch.bfloat16),
    ],
    ids=["float32", "float64", "autocast", "autocast of bfloat16 states", "bfloat16"],
)


@EACH_READING
@PRECISIONS
@pytest.mark.parametrize("before", [(), (5,), (5, 1, 33)], ids=str)
@pytest.mark.parametrize("slots", [1, 3, 64])
def test_growing_changes_no_bit_of_any_output(reading, dtype, autocast, given, before, slots):
    layer = memory(*before, reading=reading).to(dtype)
    texts = states(3, 7, dtype=given)
    with torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
        old = layer(texts)
        layer.grow(slots, "new", quiet=2.0 if slots == 3 else 0.0)
        new = layer(texts)
    assert old.dtype == new.dtype == texts.dtype
    assert torch.equal(bits(old), bits(new))
    assert before == () or not torch.equal(new, texts)


@EACH_READING
def test_growing_changes_no_bit_whatever_was_learnt_and_grown_before(reading):
    layer = memory(reading=reading)
    for number, slots in enumerate((16, 5, 1, 40)):
        old = layer(states(4, 9))
        layer.grow(slots, f"domain {number}")
        assert torch.equal(bits(layer(states(4, 9))), bits(old))
        train(layer)
        assert not torch.equal(layer(states(4, 9)), old)


@EACH_READING
def test_an_old_domain_adds_the_same_bits_however_much_the_new_one_has_learnt(reading):
    layer = memory(7, 20, reading=reading)
    old = layer(states(4, 9))
    layer.grow(11, "new")
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    train(layer)
    with torch.no_grad():  # what is old stays frozen
        for name, rows in layer.rows(layer.bank.segments[-1]).items():
            layer.get_parameter(name)[: rows.start] = before[name][: rows.start]
    assert not torch.equal(layer(states(4, 9)), old)
    with layer.without("new"):
        assert torch.equal(bits(layer(states(4, 9))), bits(old))


@EACH_READING
def test_places_without_any_number_but_zeros_keep_their_signs_when_it_grows(reading):
    layer = ResidualMemory(WIDTH, key_size=KEY, slots=1, reading=reading)
    given = torch.tensor([[0.0] * WIDTH, [-0.0] * WIDTH])
    for slots in (1, 1, 30):
        old = layer(given)
        layer.grow(slots)
        assert torch.equal(bits(layer(given)), bits(old))
    assert torch.equal(bits(ResidualMemory(WIDTH, key_size=KEY, slots=1, reading=reading)(given)), bits(given))


@EACH_READING
def test_one_place_is_read_as_it_is_among_others(reading):
    layer = memory(6, 9, reading=reading)
    given = states(3, 5)
    torch.testing.assert_close(layer(given[1, 2]), layer(given)[1, 2])
    assert layer(given[:0]).shape == (0, 5, WIDTH)


def test_an_empty_memory_hands_its_states_on_and_leaves_no_trace():
    layer, given = ResidualMemory(WIDTH), states(2, 3)
    assert layer(given) is given
    assert layer.state_dict() == {}
    assert layer.weights(given).shape == (2, 3, 0)
    layer.load_state_dict({})


@pytest.mark.parametrize("quiet", [0.0, 3.0])
@pytest.mark.parametrize("best", [1, 4, 100])
@pytest.mark.parametrize("segments", [(1,), (4,), (12, 3, 30)], ids=str)
def test_the_fast_reading_equals_its_naive_twin_in_outputs_and_gradients(segments, best, quiet):
    torch.manual_seed(0)
    layer = ResidualMemory(WIDTH, key_size=KEY, best=best).double()
    for slots in segments:
        layer.grow(slots, quiet=quiet)
    nn.init.normal_(layer.bank.values)
    given = states(2, 5, dtype=torch.double).requires_grad_()
    inputs = [given, *(p for p in layer.parameters() if p.numel())]
    results = []
    for output in (layer(given), given + read_naively(layer, given)):
        gradients = torch.autograd.grad((output * output.detach().cos()).sum(), inputs)
        results.append((output, *gradients))
    torch.testing.assert_close(results[0], results[1])
    assert all(gradient.any() for gradient in results[0])


def test_slots_that_tie_for_the_last_place_are_all_read_in_both_ways():
    layer = ResidualMemory(WIDTH, key_size=KEY, best=3, slots=12).double()
    nn.init.normal_(layer.bank.values)
    with torch.no_grad():  # products with these keys are exact, so that equal keys have equal logits
        layer.bank.keys.copy_(torch.eye(KEY)[torch.arange(12) // 4])
    given = states(2, 5, dtype=torch.double)
    weights = layer.weights(given)
    assert set((weights > 0).sum(-1).flatten().tolist()) == {4}
    torch.testing.assert_close(layer(given), given + read_naively(layer, given))


@pytest.mark.parametrize(("slots", "best"), [(1, 16), (16, 16), (40, 16), (40, 1)])
def test_weights_are_those_of_the_best_slots_and_nothing(slots, best):
    logits = torch.randn(50, slots, dtype=torch.double) * 4
    weights = best_slots(logits, best)
    assert ((weights > 0).sum(-1) == min(slots, best)).all()
    nothing = 1 - weights.sum(-1)
    assert (nothing > 0).all()
    torch.testing.assert_close((weights / nothing[:, None]).amax(-1).log(), logits.amax(-1))


def test_a_text_unlike_all_keys_reads_little_and_one_like_a_key_reads_it():
    logits = torch.tensor([[-40.0, -50.0], [40.0, -50.0], [1000.0, 0.0], [-1000.0, -1000.0]], requires_grad=True)
    weights = best_slots(logits, 1)
    torch.testing.assert_close(weights, torch.tensor([[0.0, 0], [1, 0], [1, 0], [0, 0]]))
    weights.sum().backward()
    assert logits.grad.isfinite().all()


def test_logits_of_new_slots_have_the_documented_spread():
    layer = ResidualMemory(384, slots=500)
    query = layer.queries(torch.randn(200, 384), "1")
    logits = query @ nn.functional.normalize(layer.bank.keys, dim=-1).T * SHARPNESS
    assert logits.std().item() == pytest.approx(SHARPNESS, rel=0.1)
    torch.testing.assert_close(layer.bank.keys.norm(dim=-1), torch.ones(500))


@EACH_READING
def test_shares_of_each_domain_are_parts_of_one_by_themselves(reading):
    layer = memory(6, 9, reading=reading)
    shares = layer.bank.share(layer.weights(states(3, 5)))
    assert list(shares) == ["domain 0", "domain 1"]
    for share in shares.values():
        assert share.shape == (3, 5)
        assert (share >= 0).all()
        assert (share <= 1 + 1e-6).all()


@EACH_READING
def test_counts_are_the_weights_summed_over_the_places_of_a_mask(reading):
    layer = memory(6, 9, reading=reading)
    mask = torch.rand(3, 5) < 0.5
    counts = layer.counts(states(3, 5), mask)
    torch.testing.assert_close(counts, layer.weights(states(3, 5))[mask].sum(0))
    assert counts.shape == (len(layer.bank),)
    assert not layer.counts(states(3, 5), torch.zeros(3, 5, dtype=torch.bool)).any()


@EACH_READING
def test_a_state_dict_is_loaded_after_the_same_growth(reading):
    layer = memory(6, 9, reading=reading)
    layer.grow(2, "quiet", quiet=2.0)
    other = ResidualMemory(WIDTH, key_size=KEY, best=4, reading=reading)
    for call in layer.growths:
        other.grow(**call)
    other.load_state_dict(layer.state_dict())
    assert other.bank.segments == layer.bank.segments
    assert torch.equal(other(states(3, 5)), layer(states(3, 5)))
    assert ("query.weight" in layer.state_dict()) == (reading != "adapter")


@EACH_READING
def test_new_rows_stand_at_the_end_of_each_parameter_and_the_optimiser_goes_on(reading):
    layer = memory(6, reading=reading, trained=False)
    optimiser = train(layer)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    layer.grow(9, "new", optimiser=optimiser)
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter[: len(before[name])], before[name])
        if name in (rows := layer.rows(layer.bank.segments[-1])):
            assert rows[name] == slice(len(before[name]), len(parameter))
        if len(parameter) and not any(parameter is fixed for fixed in layer.untrained_parameters()):
            assert optimiser.state[parameter]["exp_avg"].shape == parameter.shape


def test_growth_can_be_part_of_a_larger_one_or_not_happen():
    layer = memory(6, trained=False)
    growth = Growth()
    layer.plan(growth, slots=3, domain="new")
    assert (len(layer.bank), len(layer.query.weight), len(layer.growths)) == (6, KEY, 1)
    growth.commit()
    assert (len(layer.bank), len(layer.query.weight), len(layer.growths)) == (9, 2 * KEY, 2)
    layer.grow(0, "none")
    assert len(layer.growths) == 2


def test_a_domain_that_returns_gets_slots_and_a_query_of_their_own():
    layer = memory(6, 9)
    layer.grow(4, "domain 0")
    assert layer.bank.domains == ("domain 0", "domain 1")
    newest = nn.functional.linear(states(3), layer.query.weight[2 * KEY :])
    torch.testing.assert_close(layer.queries(states(3), "domain 0"), nn.functional.layer_norm(newest, (KEY,)))


def test_keys_start_at_a_sample_of_queries():
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


def test_too_few_queries_are_starts_of_several_keys_close_to_them():
    layer = memory(9)
    queries = layer.queries(states(2), "domain 0")
    layer.start_keys("domain 0", queries)
    torch.testing.assert_close(layer.bank.keys.norm(dim=-1), torch.ones(9))
    likeness = (layer.bank.keys @ nn.functional.normalize(queries, dim=-1).T).amax(-1)
    assert (likeness > 0.95).all()
    assert len(layer.bank.keys.unique(dim=0)) == 9
    before = layer.bank.keys.detach().clone()
    layer.start_keys("domain 0", queries[:0])
    assert torch.equal(layer.bank.keys, before)


@pytest.mark.parametrize("reading", ["fixed-keys", "adapter"])
def test_controls_keep_the_keys_that_were_drawn(reading):
    layer = memory(9, reading=reading)
    before = layer.bank.keys.detach().clone()
    layer.start_keys("domain 0", layer.queries(states(20), "domain 0"))
    assert torch.equal(layer.bank.keys, before)
    untrained = [name for name, p in layer.named_parameters() if any(p is q for q in layer.untrained_parameters())]
    assert untrained == (["bank.keys"] if reading == "fixed-keys" else [])
    train(layer)
    assert torch.equal(layer.bank.keys, before) == (reading == "fixed-keys")


@pytest.mark.parametrize("slots", [1, 16, 256])
def test_an_adapter_has_as_many_parameters_as_the_slots_it_stands_for(slots):
    sizes = [count_parameters(ResidualMemory(384, slots=slots, reading=name)) for name in ("slots", "adapter")]
    assert abs(sizes[0] - sizes[1]) <= 384


def test_an_adapter_is_a_bottleneck_with_a_rectifier():
    layer = memory(6, 9, reading="adapter")
    given = states(3, 5)
    expected = given + (given @ layer.bank.keys.T).relu() @ layer.bank.values
    torch.testing.assert_close(layer(given), expected)


def test_impossible_memories_are_refused_in_a_sentence():
    with pytest.raises(SettingsError, match="'dice' is not known; there are slots, fixed-keys, adapter"):
        ResidualMemory(WIDTH, reading="dice")
    with pytest.raises(SettingsError, match="keys of 2 or more"):
        ResidualMemory(WIDTH, key_size=1)
    with pytest.raises(SettingsError, match="0 or more slots"):
        ResidualMemory(WIDTH).grow(-1)
    with pytest.raises(SettingsError, match="'x' has no slots in this memory; those that have: domain 0"):
        memory(3).queries(states(1), "x")
