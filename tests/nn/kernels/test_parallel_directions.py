"""Two directions that run at the same time give what they give one after the other."""

import multiprocessing

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from memgrow.nn import MemoryGRU, MemoryLSTM
from memgrow.nn.kernels import parallel_directions

LAYERS = {"lstm": MemoryLSTM, "gru": MemoryGRU}


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(parallel_directions, "WORTHWHILE", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=LAYERS)
def layer(request):
    torch.manual_seed(0)
    return LAYERS[request.param](5, 6, slots=7, slot_size=3, bidirectional=True)


def twin(layer, backend: str = "naive"):
    other = type(layer)(5, 6, slots=layer.slots, slot_size=3, bidirectional=True, backend=backend)
    other.load_state_dict(layer.state_dict())
    return other


def ragged(*lengths: int):
    torch.manual_seed(1)
    return pack_sequence([torch.randn(length, 5, requires_grad=True) for length in lengths], enforce_sorted=False)


def flat(last) -> list[torch.Tensor]:
    return list(last) if isinstance(last, tuple) else [last]


@pytest.mark.parametrize("lengths", [(4, 1, 7, 7, 2), (1,), (1, 1, 1), (9,)], ids=str)
def test_outputs_and_gradients_are_those_of_the_equations(layer, lengths):
    plain = twin(layer)
    results = []
    for one in (layer, plain):
        batch = ragged(*lengths)
        batch.data.retain_grad()
        output, last = one(batch)
        loss = sum(
            (part * torch.randn(part.shape, generator=torch.Generator().manual_seed(3))).sum() for part in flat(last)
        )
        (loss + (output.data * torch.arange(output.data.numel()).view_as(output.data).cos()).sum()).backward()
        results.append([output.data, *flat(last), batch.data.grad, *(p.grad for p in one.parameters() if p.numel())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_it_is_this_way_that_is_taken(layer, monkeypatch):
    monkeypatch.setattr(parallel_directions, "recur", lambda *_: pytest.fail("taken"))
    with pytest.raises(pytest.fail.Exception, match="taken"):
        layer(torch.randn(3, 2, 5))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_without_gradients_the_answer_is_the_same(layer, mode):
    batch = ragged(3, 5, 1)
    expected = twin(layer)(batch)[0].data.detach()
    with mode():
        torch.testing.assert_close(layer(batch)[0].data, expected, rtol=1e-5, atol=1e-6)


def test_initial_states_get_their_gradients(layer):
    plain, results = twin(layer), []
    for one in (layer, plain):
        torch.manual_seed(2)
        parts = tuple(torch.randn(2, 4, 6, requires_grad=True) for _ in range(2 if isinstance(one, MemoryLSTM) else 1))
        output, _ = one(torch.ones(3, 4, 5), parts if len(parts) > 1 else parts[0])
        output.square().sum().backward()
        results.append([part.grad for part in parts])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_number_of_threads_is_put_back(layer):
    layer(ragged(3, 2))[0].data.sum().backward()
    assert torch.get_num_threads() == 2


def test_an_error_in_either_direction_is_raised_and_the_number_of_threads_is_put_back():
    def fails():
        raise RuntimeError("the bulb broke")

    for work in ([fails, lambda: 1], [lambda: 1, fails]):
        with pytest.raises(RuntimeError, match="the bulb broke"):
            parallel_directions._at_once(work)
        assert torch.get_num_threads() == 2
    assert parallel_directions._at_once([lambda: 1, lambda: 2]) == [1, 2]


def test_the_same_bits_again(layer):
    batch = ragged(4, 6, 2)
    first, second = (layer(batch)[0].data for _ in range(2))
    assert torch.equal(first, second)


def _in_a_child(answers, layer, batch) -> None:
    torch.set_num_threads(2)
    answers.put(layer(batch)[0].data.sum().item())


def test_a_forked_process_has_a_second_thread_of_its_own(layer):
    batch = ragged(4, 2)
    with torch.no_grad():
        expected = layer(batch)[0].data.sum().item()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_in_a_child, args=(answers, layer, ragged(4, 2)))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert answers.get() == pytest.approx(expected, rel=1e-4)
