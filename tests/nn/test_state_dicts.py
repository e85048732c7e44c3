"""Layers are copied, pickled, saved and cast as torch's are, and a state dict tells who owns which slots."""

import copy
import io
import pickle
import threading

import pytest
import safetensors.torch
import torch
from torch import nn

from memgrow.errors import SettingsError
from memgrow.nn import MemoryBank, MemoryGRU, MemoryLSTM, MemoryRNN, ResidualMemory
from memgrow.nn.state_dicts import EXTRA, packed_json

SHAPE = {"num_layers": 2, "bidirectional": True, "slot_size": 3}


def recurrent(kind, slots=5):
    layer = kind(4, 6, slots=slots, domain="books", **SHAPE) if slots else kind(4, 6, **SHAPE)
    if slots:
        layer.grow(slots=2, domain="dvds", quiet=1.5)
        layer.grow(slots=3, domain="música")
    return layer


def bank(slots=5):
    made = MemoryBank(4, 3)
    if slots:
        made.grow(slots, "books")
        made.grow(2, "dvds", quiet=1.0)
    return made


def residual(reading="slots", slots=5):
    made = ResidualMemory(6, key_size=4, best=2, reading=reading)
    if slots:
        made.grow(slots, "books")
        made.grow(3, "dvds", quiet=1.0, apart=True)
        nn.init.normal_(made.bank.values)
    return made


# name: a layer that has grown, the same as it is built, what it is asked, and its banks
LAYERS = {
    "MemoryLSTM": (lambda: recurrent(MemoryLSTM), lambda: recurrent(MemoryLSTM, 0)),
    "MemoryGRU": (lambda: recurrent(MemoryGRU), lambda: recurrent(MemoryGRU, 0)),
    "MemoryRNN": (lambda: recurrent(MemoryRNN), lambda: recurrent(MemoryRNN, 0)),
    "MemoryBank": (bank, lambda: bank(0)),
    "ResidualMemory": (residual, lambda: residual(slots=0)),
    "an adapter": (lambda: residual("adapter"), lambda: residual("adapter", 0)),
}
EACH = pytest.mark.parametrize(("make", "make_empty"), LAYERS.values(), ids=LAYERS)
FEWER = {name: made for name, made in LAYERS.items() if name not in ("MemoryGRU", "MemoryRNN")}
ONE_RECURRENT = pytest.mark.parametrize(("make", "make_empty"), FEWER.values(), ids=FEWER)


def banks(layer):
    return [module for module in layer.modules() if isinstance(module, MemoryBank)]


def answer(layer):
    x = torch.randn(5, 2, 4 if not isinstance(layer, ResidualMemory) else 6, generator=torch.Generator().manual_seed(1))
    x = x.to(next(layer.parameters()).dtype)
    found = layer.attend(x) if isinstance(layer, MemoryBank) else layer(x)
    return found[0] if isinstance(found, tuple) else found


def assert_same(ours, theirs):
    assert [one.segments for one in banks(ours)] == [one.segments for one in banks(theirs)]
    if isinstance(ours, ResidualMemory):
        assert ours.growths == theirs.growths
    assert torch.equal(answer(ours), answer(theirs))


def through_torch(state):
    file = io.BytesIO()
    torch.save(state, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


def through_safetensors(state):
    return safetensors.torch.load(safetensors.torch.save(state))


WAYS = pytest.mark.parametrize("way", [through_torch, through_safetensors, lambda state: state])


@EACH
@pytest.mark.parametrize("way", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_is_the_same_layer(make, make_empty, way):
    layer = make()
    assert_same(way(layer), layer)


@EACH
@WAYS
def test_a_state_dict_makes_an_empty_layer_the_same(make, make_empty, way):
    layer, other = make(), make_empty()
    other.load_state_dict(way(layer.state_dict()))
    assert_same(other, layer)
    assert_same(layer, layer)


def test_what_a_state_dict_leaves_out_is_zero_and_not_what_lay_in_memory():
    layer, other = MemoryLSTM(3, 4, slots=5), MemoryLSTM(3, 4)
    state = {name: tensor for name, tensor in layer.state_dict().items() if not name.endswith("values")}
    for _ in range(4):  # so that memory has something to be found
        torch.full((5, 4), 7.0)
    other.load_state_dict(state, strict=False)
    assert len(other.banks[0].values) == 5
    assert not other.banks[0].values.any()


@EACH
def test_a_state_dict_finishes_a_layer_that_has_the_first_slots_and_names_their_owners(make, make_empty):
    layer, other = make(), make_empty()
    first = banks(layer)[0].segments[0]
    if isinstance(other, MemoryBank | ResidualMemory):
        other.grow(5, "another name")
    else:
        other.grow(slots=first.stop, domain="another name")
    held = {id(parameter) for parameter in other.parameters()}
    other.load_state_dict(layer.state_dict())
    assert_same(other, layer)
    assert {id(parameter) for parameter in other.parameters()} == held, "an optimiser would train what is gone"


def test_the_same_where_the_layer_is_a_part_of_a_model():
    model, other = (nn.Sequential(nn.Linear(4, 4), make()) for make in LAYERS["MemoryGRU"])
    other.load_state_dict(model.state_dict())
    assert_same(other[1], model[1])


def as_it_is(layer):
    shapes = {name: tensor.clone() for name, tensor in layer.named_parameters()}
    return shapes, [one.segments for one in banks(layer)], getattr(layer, "growths", None)


def assert_as_it_was(layer, before):
    numbers, *described = as_it_is(layer)
    assert numbers.keys() == before[0].keys()
    assert all(torch.equal(numbers[name], before[0][name]) for name in numbers)
    assert tuple(described) == before[1:]


def wrong(state):
    """State dicts that do not fit, each in one entry: of another width, missing, or too many."""
    for name, tensor in list(state.items())[::3]:
        if not name.endswith(EXTRA):
            yield {**state, name: torch.cat((tensor, tensor), -1)}
            yield {other: value for other, value in state.items() if other != name}
        else:
            yield {**state, name: packed_json({"segments": [["books", 1, False]], "growths": []})}
    yield {**state, "another": torch.zeros(1)}


@ONE_RECURRENT
@pytest.mark.parametrize("grown", [False, True])
def test_a_state_dict_that_is_refused_leaves_the_layer_as_it_was(make, make_empty, grown):
    for state in wrong(make().state_dict()):
        other = make() if grown else make_empty()
        before = as_it_is(other)
        with pytest.raises((RuntimeError, SettingsError)):
            other.load_state_dict(state)
        assert_as_it_was(other, before)


@ONE_RECURRENT
def test_sizes_that_do_not_fit_leave_a_layer_as_it_was_within_a_model(make, make_empty):
    state = {f"1.{name}": tensor for name, tensor in make().state_dict().items()}
    for name in [name for name in state if not name.endswith(EXTRA)][::3]:
        model = nn.Sequential(nn.Identity(), make_empty())
        before = as_it_is(model[1])
        with pytest.raises(RuntimeError, match=r"(?s)^1: .*size mismatch"):
            model.load_state_dict({**state, name: torch.cat((state[name], state[name]), -1)})
        assert_as_it_was(model[1], before)


class Listener:
    """Hears of each forward pass, and keeps on the layer what came of it, and of all before; it cannot be copied."""

    def __init__(self):
        self.lock = threading.Lock()

    def hear(self, layer, given, found):
        layer.last = found[0] if isinstance(found, tuple) else found
        layer.heard = {"so far": [*getattr(layer, "heard", {}).get("so far", []), (layer.last, given)]}


@ONE_RECURRENT
def test_a_layer_that_somebody_listens_to_loads_a_state_dict_as_torchs_do(make, make_empty):
    layer, other = make(), make()
    other.register_forward_hook(Listener().hear)
    answer(other)
    answer(other).sum().backward()
    other.load_state_dict(layer.state_dict())
    assert_same(other, layer)


@EACH
def test_a_state_dict_that_says_nothing_of_owners_loads_as_it_did(make, make_empty):
    layer, other = make(), make()
    numbers = {name: tensor for name, tensor in layer.state_dict().items() if not name.endswith(EXTRA)}
    assert len(numbers) < len(layer.state_dict())
    assert all(result == [] for result in other.load_state_dict(numbers))
    assert_same(other, layer)


@EACH
def test_without_slots_a_state_dict_has_no_trace_of_them(make, make_empty):
    assert not [name for name in make_empty().state_dict() if "bank" in name or "query" in name or EXTRA in name]


def test_a_state_dict_whose_entries_were_all_cast_still_tells_owners():
    layer = recurrent(MemoryLSTM)
    state = {name: tensor.bfloat16() for name, tensor in layer.state_dict().items()}
    other = recurrent(MemoryLSTM, 0)
    other.load_state_dict(state)
    assert [one.domains for one in other.banks] == [one.domains for one in layer.banks]


@pytest.mark.parametrize(
    "told",
    [
        torch.tensor([1, 2], dtype=torch.uint8),
        packed_json({"segments": [["books", 10**12, False]]}),
        packed_json({"segments": [["books", 5, 0], [7, 2, True], ["c", 3, False]]}),
        packed_json([]),
        packed_json({"segments": 3}),
        "books",
    ],
    ids=["no JSON", "too many", "wrong kinds", "no segments", "a number", "text"],
)
def test_what_is_told_of_owners_must_fit_the_slots(told):
    state = recurrent(MemoryLSTM).state_dict()
    state[f"banks.0.{EXTRA}"] = told
    with pytest.raises(SettingsError, match="this state dict"):
        recurrent(MemoryLSTM, 0).load_state_dict(state)


def test_other_slots_are_refused_as_torch_refuses_other_shapes():
    other = MemoryLSTM(4, 6, slots=9, **SHAPE)
    with pytest.raises(RuntimeError, match="size mismatch"):
        other.load_state_dict(recurrent(MemoryLSTM).state_dict())


@EACH
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_another_dtype_changes_answers_no_more_than_it_must(make, make_empty, dtype):
    torch.manual_seed(0)
    layer = make()
    expected = answer(layer)
    cast = copy.deepcopy(layer).to(dtype)
    found = answer(cast)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)
    found.float().square().sum().backward()
    assert all(p.grad is None or p.grad.dtype == dtype for p in cast.parameters())
    assert [one.segments for one in banks(cast)] == [one.segments for one in banks(layer)]
    bank = banks(cast)[0]
    bank.grow(1)
    assert bank.keys.dtype == dtype
