"""On a GPU: calls that are recorded and replayed give what their naive twin gives, to the bit."""

import copy
import gc
import threading

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

from memgrow.nn import MemoryGRU, MemoryLSTM
from memgrow.nn.kernels.cuda.recordings import BEFORE

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0),
    reason="needs a GPU of compute capability 9.0; what is not the GPU's is tested without one",
)
KINDS = pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
FAMILIES = pytest.mark.parametrize(
    ("tf32", "slots"), [(False, 500), (True, 500), (True, 2500), (True, 0)]
)  # grid; attention; contents; none
LENGTHS = torch.tensor([9, 4, 7, 9, 1])


def pair(kind, slots, layers=1, dtype=torch.float32):
    torch.manual_seed(0)
    layer = kind(30, 50, slots=slots, num_layers=layers, bidirectional=True, device="cuda", backend="cuda", dtype=dtype)
    if slots:
        layer.grow(slots=8, initial_logit_bias=-1.0)
    plain = copy.deepcopy(layer)
    plain.recordings, plain.cuda_graphs = None, False
    return layer, plain


def inputs(seed, dtype=torch.float32):
    x = torch.randn(9, 5, 30, generator=torch.Generator().manual_seed(seed))
    return x.to("cuda", dtype).requires_grad_()


def flat(output, last):
    return [output, *(last if isinstance(last, tuple) else (last,))]


def step(layer, seed, packed=False, dtype=torch.float32):
    x = inputs(seed, dtype)
    layer.zero_grad()
    output, last = layer(pack_padded_sequence(x, LENGTHS, enforce_sorted=False) if packed else x)
    results = flat(output.data if packed else output, last)
    sum(part.float().sin().sum() for part in results).backward()
    found = [*results, x.grad, *(p.grad for p in layer.parameters() if p.numel())]
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.grad is not None:
                parameter -= 0.01 * parameter.grad
    return [one.detach().clone() for one in found]


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


@KINDS
@FAMILIES
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_steps_that_are_replayed_are_those_of_the_twin(kind, tf32, slots, packed):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    layer, plain = pair(kind, slots, layers=2)
    for seed in range(BEFORE + 4):
        assert_equal(step(layer, seed, packed), step(plain, seed, packed))
    assert len(layer.recordings) == 2  # one for each of the layers


@KINDS
def test_bfloat16_is_replayed_too(kind):
    layer, plain = pair(kind, 40, dtype=torch.bfloat16)
    for seed in range(BEFORE + 3):
        assert_equal(step(layer, seed, dtype=torch.bfloat16), step(plain, seed, dtype=torch.bfloat16))
    assert len(layer.recordings) == 1


@KINDS
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_answers_that_are_replayed_are_those_of_the_twin(kind, mode):
    torch.backends.cuda.matmul.allow_tf32 = True
    layer, plain = pair(kind, 40)
    with mode():
        for seed in range(BEFORE + 3):
            assert_equal(flat(*layer(inputs(seed))), flat(*plain(inputs(seed))))
    assert len(layer.recordings) == 1


def warm(kind=MemoryLSTM):
    torch.backends.cuda.matmul.allow_tf32 = True
    layer, plain = pair(kind, 40)
    for seed in range(BEFORE + 2):
        step(layer, seed)
        step(plain, seed)
    layer.zero_grad()
    plain.zero_grad()
    assert len(layer.recordings) == 1
    return layer, plain


def loss(layer, x):
    return sum(part.sin().sum() for part in flat(*layer(x)))


def test_calls_may_wait_for_their_backward_pass_and_have_it_twice():
    layer, plain = warm()
    for one in (layer, plain):
        x, y = inputs(1), inputs(2)
        first, second = loss(one, x), loss(one, y)
        first.backward(retain_graph=True)
        second.backward()
        loss(one, inputs(3)).backward()
        first.backward()
        one.seen = [x.grad, y.grad, *(p.grad for p in one.parameters() if p.numel())]
    for a, b in zip(layer.seen, plain.seen, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_changes_no_gradient(reentrant):
    layer, plain = warm()
    x, y = inputs(1), inputs(1)
    checkpoint(lambda one: layer(one)[0], x, use_reentrant=reentrant).sin().sum().backward()
    plain(y)[0].sin().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_a_callers_own_graph_holds_the_call_and_no_replay():
    layer, plain = warm()
    x = inputs(1).detach()
    with torch.no_grad():
        for _ in range(BEFORE + 2):
            layer(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = layer(x)[0]
        x.copy_(inputs(2))
        graph.replay()
        assert torch.equal(output, plain(x)[0])


def test_another_stream_and_other_threads_get_their_own_answers():
    layer, plain = warm()
    given = [inputs(seed).detach() for seed in range(8)]
    with torch.no_grad():
        expected = [plain(x)[0] for x in given]
    torch.cuda.synchronize()
    wrong = []

    def ask(number, stream):
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(20):
                if not torch.equal(layer(given[number])[0], expected[number]):
                    wrong.append(number)

    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    threads = [threading.Thread(target=ask, args=(n, streams[n % 2])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_growth_between_steps_is_seen_at_once():
    layer, plain = warm()
    for one in (layer, plain):
        one.grow(slots=8, generator=torch.Generator().manual_seed(3))
    for seed in range(BEFORE + 3):
        assert_equal(step(layer, seed), step(plain, seed))


def test_memory_is_given_back_with_the_layer():
    warm()  # what is kept for all layers, as workspaces of products, is taken now
    gc.collect()
    before = torch.cuda.memory_allocated()
    layers = warm()
    assert torch.cuda.memory_allocated() > before
    del layers
    gc.collect()
    assert torch.cuda.memory_allocated() == before
