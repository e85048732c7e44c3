"""The layers keep the contract of torch's own, and read their banks as the paper's equations say."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

from memgrow.errors import SettingsError
from memgrow.nn import MemoryGRU, MemoryLSTM, MemoryRecurrent, MemoryRNN

TWINS = {MemoryLSTM: nn.LSTM, MemoryGRU: nn.GRU, MemoryRNN: nn.RNN}
LAYERS = pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
LENGTHS = (3, 1, 6, 6, 2)


def twins(kind: type[MemoryRecurrent], **settings: object) -> tuple[MemoryRecurrent, nn.RNNBase]:
    torch.manual_seed(1)
    theirs = TWINS[kind](5, 7, **settings).double()
    ours = kind(5, 7, **settings).double()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def flat(states: object) -> tuple[torch.Tensor, ...]:
    return states if isinstance(states, tuple) else (states,)


def assert_same_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    reference = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if name in reference:
            torch.testing.assert_close(parameter.grad, reference[name].grad)


@LAYERS
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_without_slots_a_packed_batch_gives_what_torch_gives(kind, bidirectional, bias):
    ours, theirs = twins(kind, bidirectional=bidirectional, bias=bias, num_layers=2)
    sequences = [torch.randn(n, 5, dtype=torch.double) for n in LENGTHS]
    batch = pack_sequence(sequences, enforce_sorted=False)
    (out, states), (expected, expected_states) = ours(batch), theirs(batch)
    torch.testing.assert_close(out.data, expected.data)
    assert torch.equal(out.batch_sizes, expected.batch_sizes)
    assert torch.equal(out.unsorted_indices, expected.unsorted_indices)
    for a, b in zip(flat(states), flat(expected_states), strict=True):
        torch.testing.assert_close(a, b)
    loss = [
        o.data.sin().sum() + sum(s.cos().sum() for s in flat(x))
        for o, x in ((out, states), (expected, expected_states))
    ]
    loss[0].backward()
    loss[1].backward()
    assert_same_gradients(ours, theirs)
    with torch.no_grad():  # by torch's own layer on a CPU
        torch.testing.assert_close(ours(batch)[0].data, expected.data)


@LAYERS
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_without_slots_a_padded_batch_with_initial_states_gives_what_torch_gives(kind, bidirectional, batch_first):
    ours, theirs = twins(kind, bidirectional=bidirectional, batch_first=batch_first)
    x = torch.randn(4, 3, 5, dtype=torch.double)
    rows = x.shape[0 if batch_first else 1]
    hx = [torch.randn(1 + bidirectional, rows, 7, dtype=torch.double) for _ in range(2)]
    first = tuple(hx) if kind is MemoryLSTM else hx[0]
    (out, states), (expected, expected_states) = ours(x, first), theirs(x, first)
    torch.testing.assert_close(out, expected)
    for a, b in zip(flat(states), flat(expected_states), strict=True):
        torch.testing.assert_close(a, b)
    out.sin().sum().backward()
    expected.sin().sum().backward()
    assert_same_gradients(ours, theirs)


@LAYERS
def test_without_slots_one_sequence_without_a_batch_gives_what_torch_gives(kind):
    ours, theirs = twins(kind, bidirectional=True)
    x = torch.randn(4, 5, dtype=torch.double)
    hx = [torch.randn(2, 7, dtype=torch.double) for _ in range(2)]
    first = tuple(hx) if kind is MemoryLSTM else hx[0]
    (out, states), (expected, expected_states) = ours(x, first), theirs(x, first)
    torch.testing.assert_close(out, expected)
    for a, b in zip(flat(states), flat(expected_states), strict=True):
        torch.testing.assert_close(a, b)


def test_relu_is_offered_as_torch_offers_it():
    torch.manual_seed(0)
    ours, theirs = MemoryRNN(3, 4, nonlinearity="relu"), nn.RNN(3, 4, nonlinearity="relu")
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(ours(x)[0], theirs(x)[0])


@LAYERS
def test_weights_travel_both_ways_between_torch_and_a_layer_without_slots(kind):
    ours, theirs = twins(kind, num_layers=2, bidirectional=True)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())


@pytest.mark.slow
@LAYERS
@pytest.mark.parametrize("backend", ["naive", "auto"])
def test_gradients_with_memory_are_right(kind, backend):
    torch.manual_seed(0)
    layer = kind(2, 3, slots=2, slot_size=2, num_layers=2, bidirectional=True, backend=backend).double()
    layer.grow(slots=1, initial_logit_bias=-1.5)
    sequences = [torch.randn(n, 2, dtype=torch.double, requires_grad=True) for n in (2, 3, 1)]
    names = [name for name, _ in layer.named_parameters()]

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        inputs, parameters = tensors[: len(sequences)], dict(zip(names, tensors[len(sequences) :], strict=True))
        batch = pack_sequence(inputs, enforce_sorted=False)
        out, states = torch.func.functional_call(layer, parameters, (batch,))
        return torch.cat([out.data.flatten(), *(state.flatten() for state in flat(states))])

    # Along a random direction: every entry by itself takes twenty times as long.
    assert torch.autograd.gradcheck(run, (*sequences, *layer.parameters()), fast_mode=True)


def test_one_step_follows_the_papers_equations():
    torch.manual_seed(0)
    layer = MemoryRNN(3, 4, slots=5, slot_size=2, bias=False).double()
    x, h = torch.randn(3, dtype=torch.double), torch.randn(4, dtype=torch.double)
    bank = layer.banks[0]
    scores = torch.exp(bank.keys @ h)  # equation 1
    content = ((scores / scores.sum()).unsqueeze(1) * bank.values).sum(0)  # equation 2
    expected = torch.tanh(layer.weight_ih_l0 @ torch.cat((x, content)) + layer.weight_hh_l0 @ h)
    torch.testing.assert_close(layer(x.view(1, 1, 3), h.view(1, 1, 4))[0].flatten(), expected)


@LAYERS
def test_the_memory_is_read_at_the_first_step_too(kind):
    torch.manual_seed(0)
    layer = kind(3, 4, slots=5)
    x = torch.randn(1, 1, 3)
    before = layer(x)[0]
    with torch.no_grad():
        layer.banks[0].values.add_(1)
    assert not torch.allclose(before, layer(x)[0])


@LAYERS
def test_every_layer_and_direction_reads_its_own_bank(kind):
    layer = kind(3, 4, slots=5, num_layers=2, bidirectional=True)
    assert len(layer.banks) == 4
    assert len({id(bank.keys) for bank in layer.banks}) == 4
    batch = torch.randn(3, 2, 3)
    before, _ = layer(batch)
    for bank in layer.banks:
        with torch.no_grad():
            bank.values.add_(0.5)
        after, _ = layer(batch)
        assert not torch.allclose(before, after), "a bank that changes nothing is not read"
        before = after


@LAYERS
def test_a_sequence_yields_the_same_alone_and_in_any_company(kind):
    torch.manual_seed(0)
    layer = kind(3, 4, slots=6, num_layers=2, bidirectional=True).double()
    sequences = [torch.randn(n, 3, dtype=torch.double) for n in LENGTHS]
    together, states = layer(pack_sequence(sequences, enforce_sorted=False))
    padded, _ = pad_packed_sequence(together, batch_first=True)
    for row, sequence in enumerate(sequences):
        alone, state = layer(sequence.unsqueeze(1))
        torch.testing.assert_close(padded[row, : len(sequence)], alone[:, 0])
        for a, b in zip(flat(states), flat(state), strict=True):
            torch.testing.assert_close(a[:, row], b[:, 0])


@LAYERS
def test_what_stands_in_the_padding_never_matters(kind):
    layer = kind(3, 4, slots=6, bidirectional=True)
    clean = torch.randn(len(LENGTHS), max(LENGTHS), 3)
    poisoned = clean.clone()
    for row, length in enumerate(LENGTHS):
        poisoned[row, length:] = float("nan")
    out = [
        layer(pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False))[0].data
        for x in (clean, poisoned)
    ]
    assert torch.equal(*out)


@LAYERS
def test_reading_tells_the_weight_of_each_slot_at_each_step(kind):
    torch.manual_seed(0)
    layer = kind(3, 4, slots=5, num_layers=2, bidirectional=True).double()
    batch = pack_sequence([torch.randn(n, 3, dtype=torch.double) for n in (2, 4)], enforce_sorted=False)
    weights = layer.reading(batch)
    assert len(weights) == 4
    for one in weights:
        assert one.data.shape == (6, 5)
        torch.testing.assert_close(one.data.sum(-1), torch.ones(6, dtype=torch.double))
    # The first step of each direction queries with the initial state, zero here: all slots weigh the same.
    padded = [pad_packed_sequence(one, batch_first=True)[0] for one in weights]
    for row, length in enumerate((2, 4)):
        torch.testing.assert_close(padded[0][row, 0], torch.full((5,), 0.2, dtype=torch.double))
        torch.testing.assert_close(padded[1][row, length - 1], torch.full((5,), 0.2, dtype=torch.double))
        assert not torch.allclose(padded[0][row, 1], torch.full((5,), 0.2, dtype=torch.double))


def test_dropout_stands_between_layers_in_training_alone():
    torch.manual_seed(0)
    layer = MemoryGRU(3, 4, slots=2, num_layers=2, dropout=0.5)
    x = torch.randn(5, 2, 3)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"input_size": 0},
        {"hidden_size": -3},
        {"slots": -1},
        {"slot_size": 0},
        {"dropout": 1.5},
        {"backend": "warp"},
        {"nonlinearity": "gelu"},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(SettingsError):
        MemoryRNN(**{"input_size": 3, "hidden_size": 4, **wrong})


def test_inputs_that_do_not_fit_are_refused():
    layer, x = MemoryLSTM(3, 4), torch.randn(5, 2, 3)
    with pytest.raises(SettingsError, match="input_size is 3"):
        layer(torch.randn(5, 2, 4))
    with pytest.raises(SettingsError, match=r"shape \(1, 2, 4\)"):
        layer(x, (torch.zeros(1, 3, 4), torch.zeros(1, 3, 4)))
    with pytest.raises(SettingsError, match=r"2 tensor"):
        layer(x, torch.zeros(1, 2, 4))
    with pytest.raises(SettingsError, match="1 tensor"):
        MemoryGRU(3, 4)(x, (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)))
    with pytest.raises(SettingsError, match="no steps"):
        layer(torch.randn(0, 2, 3))
