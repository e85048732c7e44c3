"""Calls that are recorded and replayed give what their naive twin gives; graphs are played by the CPU here."""

import copy
import pickle

import pytest
import torch

from memgrow.nn import MemoryGRU, MemoryLSTM
from memgrow.nn.kernels.cuda import recordings
from memgrow.nn.kernels.cuda.recordings import BEFORE, MOST

KINDS = pytest.mark.parametrize(
    "kind", [MemoryLSTM, pytest.param(MemoryGRU, marks=pytest.mark.extras)], ids=["MemoryLSTM", "MemoryGRU"]
)


class Repeating:
    """Plays `Recorder`: a replay does the work again, and leaves its results where they were left at first."""

    recorded = 0

    def __init__(self, device):
        pass

    def record(self, work):
        Repeating.recorded += 1
        first = work()

        def replay():
            for old, new in zip(first, work(), strict=True):
                if old is not None:
                    old.copy_(new)

        return replay, first


@pytest.fixture(autouse=True)
def graphs_on_the_cpu(on_the_cpu, monkeypatch):
    monkeypatch.setattr(recordings, "Recorder", Repeating)
    monkeypatch.setattr(recordings, "stream_of", lambda device: 0)
    Repeating.recorded = 0


def pair(kind, **settings):
    """A layer whose calls are recorded, and the same layer without."""
    torch.manual_seed(0)
    layer = kind(3, 4, slots=5, slot_size=2, bidirectional=True, **settings)
    layer.grow(slots=2, initial_logit_bias=-1.5)
    plain = copy.deepcopy(layer)
    layer.recordings = recordings.Recordings()
    return layer, plain


def inputs(seed, wants_gradient=True):
    x = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(seed))
    return x.requires_grad_(wants_gradient)


def flat(output, last):
    return [output, *(last if isinstance(last, tuple) else (last,))]


def loss(layer, x):
    output, *last = flat(*layer(x))
    return output.sin().sum() + sum(state.square().sum() for state in last)


def gradients(layer, x):
    return [x.grad, *(p.grad for p in layer.parameters())]


def step(layer, seed):
    """Results and gradients of one step of training."""
    x = inputs(seed)
    layer.zero_grad()
    results = flat(*layer(x))
    sum(part.sin().sum() for part in results).backward()
    found = [*results, *gradients(layer, x)]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter -= 0.1 * parameter.grad
    return found


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("kind", "layers"), [(MemoryGRU, 1), (MemoryLSTM, 2), pytest.param(MemoryGRU, 2, marks=pytest.mark.extras)]
)
def test_steps_that_are_replayed_are_those_of_the_twin(kind, layers):
    layer, plain = pair(kind, num_layers=layers)
    for seed in range(BEFORE + 3):
        assert_equal(step(layer, seed), step(plain, seed))
    assert Repeating.recorded == 2 * layers  # each forward and backward, once


@KINDS
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_answers_that_are_replayed_are_those_of_the_twin(kind, mode):
    layer, plain = pair(kind)
    for seed in range(BEFORE + 3):
        with mode():
            assert_equal(flat(*layer(inputs(seed))), flat(*plain(inputs(seed))))
    with torch.no_grad():  # and in the other mode
        assert_equal(flat(*layer(inputs(9))), flat(*plain(inputs(9))))
    assert Repeating.recorded == 1


def warm(kind, **settings):
    layer, plain = pair(kind, **settings)
    for seed in range(BEFORE + 1):
        step(layer, seed)
        step(plain, seed)
    return layer, plain


@KINDS
def test_results_are_the_callers_own(kind):
    layer, _ = warm(kind)
    found = step(layer, 1)
    kept = [one.clone() for one in found]
    step(layer, 2)
    assert_equal(found[:3], kept[:3])  # outputs and states; a gradient is freed by the next step


@KINDS
def test_several_calls_may_wait_for_their_backward_pass(kind):
    layer, plain = warm(kind)
    for one in (layer, plain):
        one.zero_grad()
    (ours, a), (theirs, b) = [(loss(one, x := inputs(1)) + loss(one, inputs(2)), x) for one in (layer, plain)]
    ours.backward()
    theirs.backward()
    for p, q in zip([a.grad, *gradients(layer, a)], [b.grad, *gradients(plain, b)], strict=True):
        torch.testing.assert_close(p, q)


@KINDS
def test_a_graph_may_be_used_twice_even_after_the_next_call(kind):
    layer, _ = warm(kind)
    x = inputs(1)
    value = loss(layer, x)
    value.backward(retain_graph=True)
    once = x.grad.clone()
    value.backward(retain_graph=True)
    torch.testing.assert_close(x.grad, 2 * once)
    loss(layer, inputs(2)).backward()
    value.backward()
    torch.testing.assert_close(x.grad, 3 * once)


@KINDS
def test_a_call_that_is_dropped_makes_room_and_a_loss_that_is_kept_does_not_stand_in_the_way(kind, monkeypatch):
    layer, _ = warm(kind)
    eager = []
    run = recordings.Call.run
    loss(layer, inputs(1))  # nobody keeps it
    monkeypatch.setattr(recordings.Call, "run", lambda call, tensors: eager.append(call) or run(call, tensors))
    kept = loss(layer, inputs(2))
    kept.backward()
    before = len(eager)
    again = loss(layer, inputs(3))
    assert len(eager) == before + 1  # by the replay itself, as it is played here
    waiting = loss(layer, inputs(4))
    assert len(eager) == before + 2  # beside one that waits, a call runs as it is
    assert torch.isfinite(kept + again + waiting)


def test_whether_inputs_want_gradients_makes_another_call():
    layer, plain = pair(MemoryLSTM)
    for seed in range(2 * BEFORE + 4):
        wanted = bool(seed % 2)
        (a, b) = inputs(seed, wanted), inputs(seed, wanted)
        loss(layer, a).backward()
        loss(plain, b).backward()
        assert (a.grad is None) == (not wanted)
        if wanted:
            assert torch.equal(a.grad, b.grad)


def test_growth_another_dtype_and_a_copy_begin_anew():
    layer, _ = warm(MemoryLSTM)
    assert len(layer.recordings) == 1
    assert len(copy.deepcopy(layer).recordings) == 0
    assert len(pickle.loads(pickle.dumps(layer)).recordings) == 0
    layer.grow(slots=1)
    assert len(layer.recordings) == 0
    plain = copy.deepcopy(layer)
    plain.recordings = None
    for seed in range(BEFORE + 2):
        assert_equal(step(layer, seed), step(plain, seed))
    layer.to(torch.float32)
    assert len(layer.recordings) == 0


def test_a_parameter_that_lies_elsewhere_is_never_taken_for_the_old_one():
    layer, plain = warm(MemoryLSTM)
    for one in (layer, plain):
        one.weight_hh_l0.data = one.weight_hh_l0.data.clone() * 2
    assert_equal(step(layer, 5), step(plain, 5))


def test_the_same_call_on_another_device_is_another_call():
    """Replicas of a layer on several GPUs share what it has recorded, and their weights are no parameters."""
    layer, kept = MemoryLSTM(3, 4, slots=5), []
    layer.recordings = recordings.Recordings()
    replay = layer.recordings.replay

    def noted(call, tensors):
        kept.append((call, [None if t is None else t.detach() for t in tensors]))
        return replay(*kept[-1])

    layer.recordings.replay = noted
    with torch.no_grad():
        for _ in range(BEFORE + 1):
            layer(torch.randn(4, 2, 3))
    assert len(layer.recordings) == 1
    call, tensors = kept[-1]
    assert replay(call, [None if t is None else t.to("meta") for t in tensors]) is None


def test_only_so_many_kinds_of_calls_and_none_that_is_large_are_recorded(monkeypatch):
    layer, _ = pair(MemoryLSTM)

    def call(steps):
        for _ in range(BEFORE + 1):
            with torch.no_grad():
                layer(torch.randn(steps, 2, 3))

    for steps in range(1, MOST + 3):
        call(steps)
    assert len(layer.recordings) == MOST
    monkeypatch.setattr(recordings, "FORGOTTEN", 5)  # by now the first was not called for longer
    call(MOST + 3)
    assert len(layer.recordings) == MOST
    layer.recordings.clear()
    monkeypatch.setattr(recordings, "LARGEST", 0)
    call(1)
    assert len(layer.recordings) == 0


def test_what_cannot_be_recorded_goes_on_as_it_did(monkeypatch):
    class Failing(Repeating):
        def record(self, work):
            raise RuntimeError("out of memory")

    monkeypatch.setattr(recordings, "Recorder", Failing)
    layer, plain = pair(MemoryLSTM)
    for seed in range(BEFORE + 3):
        assert_equal(step(layer, seed), step(plain, seed))
    assert len(layer.recordings) == 0


def test_without_cuda_graphs_nothing_is_recorded():
    layer = MemoryLSTM(3, 4, slots=5, cuda_graphs=False)
    for _ in range(BEFORE + 2):
        layer(torch.randn(4, 2, 3))
    assert Repeating.recorded == 0
