"""Layers are copied, pickled, saved and cast as torch's are, and a state dict names the owners of slots."""

import copy
import io
import json
import pickle

import pytest
import safetensors.torch
import torch
from torch import nn

from memgrow.errors import SettingsError
from memgrow.nn import MemoryBank, MemoryGRU, MemoryLSTM, MemoryRNN
from memgrow.nn.bank import EXTRA

SHAPE = {"num_layers": 2, "bidirectional": True, "slot_size": 3}


def recurrent(kind, slots=5):
    layer = kind(4, 6, slots=slots, domain="books", **SHAPE) if slots else kind(4, 6, **SHAPE)
    if slots:
        layer.grow(slots=2, domain="dvds", initial_logit_bias=-1.5)
        layer.grow(slots=3, domain="música")
    return layer


def bank(slots=5):
    made = MemoryBank(4, 3)
    if slots:
        made.grow(slots, "books")
        made.grow(2, "dvds", initial_logit_bias=-1.0)
    return made


# name: a layer that has grown, and the same as it is built
LAYERS = {
    "MemoryLSTM": (lambda: recurrent(MemoryLSTM), lambda: recurrent(MemoryLSTM, 0)),
    "MemoryGRU": (lambda: recurrent(MemoryGRU), lambda: recurrent(MemoryGRU, 0)),
    "MemoryRNN": (lambda: recurrent(MemoryRNN), lambda: recurrent(MemoryRNN, 0)),
    "MemoryBank": (bank, lambda: bank(0)),
}
EACH = pytest.mark.parametrize(("make", "make_empty"), LAYERS.values(), ids=LAYERS)


def packed(value):
    return torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8)


def banks(layer):
    return [module for module in layer.modules() if isinstance(module, MemoryBank)]


def answer(layer):
    x = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(1))
    x = x.to(next(layer.parameters()).dtype)
    found = layer.attend(x) if isinstance(layer, MemoryBank) else layer(x)
    return found[0] if isinstance(found, tuple) else found


def assert_same(ours, theirs):
    assert [one.segments for one in banks(ours)] == [one.segments for one in banks(theirs)]
    assert torch.equal(answer(ours), answer(theirs))


def through_torch(state):
    file = io.BytesIO()
    torch.save(state, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


def through_safetensors(state):
    return safetensors.torch.load(safetensors.torch.save(state))


@EACH
def test_a_copy_is_the_same_layer(make, make_empty):
    layer = make()
    assert_same(copy.deepcopy(layer), layer)
    assert_same(pickle.loads(pickle.dumps(layer)), layer)


@EACH
@pytest.mark.parametrize("way", [through_torch, through_safetensors])
def test_a_state_dict_makes_an_empty_layer_the_same(make, make_empty, way):
    layer, other = make(), make_empty()
    other.load_state_dict(way(layer.state_dict()))
    assert_same(other, layer)


def test_the_same_where_the_layer_is_a_part_of_a_model():
    model, other = (nn.Sequential(nn.Linear(4, 4), make()) for make in LAYERS["MemoryGRU"])
    other.load_state_dict(model.state_dict())
    assert_same(other[1], model[1])


@EACH
def test_a_layer_that_has_the_first_slots_grows_by_the_others_and_takes_the_names_of_owners(make, make_empty):
    layer, other = make(), make_empty()
    if isinstance(other, MemoryBank):
        other.grow(5, "another name")
    else:
        other.grow(slots=5, domain="another name")
    held = {id(parameter) for parameter in other.parameters()}
    other.load_state_dict(layer.state_dict())
    assert_same(other, layer)
    assert {id(parameter) for parameter in other.parameters()} == held, "an optimizer would train what is gone"


@EACH
def test_a_state_dict_without_owners_loads_into_a_layer_that_has_grown_alike(make, make_empty):
    layer, other = make(), make()
    numbers = {name: tensor for name, tensor in layer.state_dict().items() if not name.endswith(EXTRA)}
    assert len(numbers) < len(layer.state_dict())
    assert all(result == [] for result in other.load_state_dict(numbers))
    assert_same(other, layer)


@EACH
def test_without_slots_a_state_dict_has_no_trace_of_them(make, make_empty):
    assert not [name for name in make_empty().state_dict() if "bank" in name or "query" in name or EXTRA in name]


@pytest.mark.parametrize(
    "stored",
    [
        torch.tensor([1, 2], dtype=torch.uint8),
        packed({"segments": [["books", 10**12, False]]}),
        packed({"segments": [["books", 5, 0], [7, 2, True], ["c", 3, False]]}),
        packed([]),
        packed({"segments": 3}),
        "books",
    ],
    ids=["no JSON", "too many", "wrong types", "no segments", "a number", "text"],
)
def test_damaged_owners_are_refused(stored):
    state = recurrent(MemoryLSTM).state_dict()
    state[f"banks.0.{EXTRA}"] = stored
    with pytest.raises(SettingsError, match="this state dict"):
        recurrent(MemoryLSTM, 0).load_state_dict(state)


def test_other_slots_are_refused_as_torch_refuses_other_shapes():
    other = MemoryLSTM(4, 6, slots=9, **SHAPE)
    with pytest.raises(RuntimeError, match="size mismatch"):
        other.load_state_dict(recurrent(MemoryLSTM).state_dict())


@EACH
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_another_dtype_changes_outputs_no_more_than_it_must(make, make_empty, dtype):
    torch.manual_seed(0)
    layer = make()
    expected = answer(layer)
    cast = copy.deepcopy(layer).to(dtype)
    found = answer(cast)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)
    found.float().square().sum().backward()
    assert all(p.grad is None or p.grad.dtype == dtype for p in cast.parameters())
    banks(cast)[0].grow(1)
    assert banks(cast)[0].keys.dtype == dtype
    other = make_empty()
    other.load_state_dict({name: tensor.to(dtype) for name, tensor in layer.state_dict().items()})
    assert [one.segments for one in banks(other)] == [one.segments for one in banks(layer)]
