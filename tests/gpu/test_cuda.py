"""The GPU's kernels against the plain loop in double precision. Run on a machine that has one: pytest tests/gpu."""

import pytest
import torch

from memgrow.nn import MemoryGRU, MemoryLSTM
from memgrow.nn.kernels.cuda import cluster, cluster_plan
from memgrow.nn.kernels.cuda.layer import Layer
from tests.support.layers import LENGTHS, SIZES, distance, results, twins

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0),
    reason="needs a GPU of compute capability 9.0; the sharing out of work is tested without one",
)

KINDS = pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
LARGE = {"paper": (300, 300, 500, 300), "wide": (100, 1024, 1024, 1024), "five domains": (300, 300, 2500, 300)}


def compare(kind, sizes, lengths, tolerance, dtype=torch.float32, **settings):
    fast, plain = twins(kind, sizes, "cuda", biased=True, dtype=dtype, **settings)
    sequences = [torch.randn(length, sizes[0], device="cuda") for length in lengths]
    ours = results(fast.cuda(), [s.to(dtype) for s in sequences])
    theirs = results(plain.cuda(), [s.double() for s in sequences])
    for name, value in theirs.items():
        if value.norm() > 1e-7:
            assert distance(ours[name], value) < tolerance, name


@KINDS
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_odd_sizes_in_full_precision(kind, sizes, lengths):
    torch.backends.cuda.matmul.allow_tf32 = False
    compare(kind, sizes, lengths, 1e-4, num_layers=2, bidirectional=True)


@KINDS
@pytest.mark.parametrize("lengths", [LENGTHS["one row"], LENGTHS["ragged"]], ids=["one row", "ragged"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_odd_sizes_in_tf32(kind, sizes, lengths):
    torch.backends.cuda.matmul.allow_tf32 = True
    compare(kind, sizes, lengths, 5e-3, bidirectional=True)


@KINDS
@pytest.mark.parametrize("sizes", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize(("mode", "tolerance"), [("full", 1e-4), ("tf32", 5e-3), ("bfloat16", 2e-2)])
def test_the_sizes_that_people_use(kind, sizes, mode, tolerance):
    torch.backends.cuda.matmul.allow_tf32 = mode != "full"
    lengths = [1 + (7 * n) % 30 for n in range(64)]
    dtype = torch.bfloat16 if mode == "bfloat16" else torch.float32
    compare(kind, sizes, lengths, tolerance, dtype=dtype, bidirectional=sizes[1] < 1024)


FAMILIES = pytest.mark.parametrize(
    ("tf32", "slots"), [(False, 500), (True, 500), (True, 2500)]
)  # grid; attention; contents


@FAMILIES
@KINDS
def test_results_repeat_to_the_bit(kind, tf32, slots):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    layer = kind(300, 300, slots=slots, bidirectional=True, device="cuda", backend="cuda")
    sequences = [torch.randn(1 + (7 * n) % 30, 300, device="cuda") for n in range(64)]
    first = results(layer, sequences)
    for _ in range(3):
        layer.zero_grad()
        again = results(layer, sequences)
        for name, value in first.items():
            assert torch.equal(value, again[name]), name


@pytest.fixture
def poison(monkeypatch):
    """Call it, and from then on memory is full of what others might have left."""
    new = Layer.new

    def poisoned(*args, **kind):
        memory = new(*args, **kind)
        memory.view(torch.uint8).fill_(255)  # not a number, in any format
        return memory

    return lambda: monkeypatch.setattr(Layer, "new", poisoned)


@FAMILIES
def test_memory_left_over_by_others_never_matters(tf32, slots, poison):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    layer = MemoryLSTM(30, 50, slots=slots, bidirectional=True, device="cuda", backend="cuda")
    sequences = [torch.randn(1 + (7 * n) % 12, 30, device="cuda") for n in range(40)]
    first = results(layer, sequences)
    poison()
    layer.zero_grad()
    again = results(layer, sequences)
    for name, value in first.items():
        assert torch.equal(value, again[name]), name


@pytest.fixture(params=[(2, 16), (1, 24), (4, 5)], ids=lambda sharing: "{} x {}".format(*sharing))
def teams(request, monkeypatch):
    """Clusters of this many blocks, in teams of this many clusters, whatever the size of the layer."""
    monkeypatch.setattr(cluster_plan, "SHARINGS", (request.param,))
    for known in (cluster.plan_for, cluster._room):
        known.cache_clear()
    yield
    for known in (cluster.plan_for, cluster._room):
        known.cache_clear()


@KINDS
def test_clusters_that_share_out_a_layer(kind, teams, poison):
    torch.backends.cuda.matmul.allow_tf32 = True
    lengths = [1 + (7 * n) % 30 for n in range(30)]
    compare(kind, (40, 70, 300, 20), lengths, 5e-3, bidirectional=True)
    layer = kind(40, 70, slots=300, bidirectional=True, device="cuda", backend="cuda")
    sequences = [torch.randn(length, 40, device="cuda") for length in lengths]
    first = results(layer, sequences)
    poison()
    for _ in range(20):
        layer.zero_grad()
        again = results(layer, sequences)
        for name, value in first.items():
            assert torch.equal(value, again[name]), name


@pytest.mark.parametrize("slots", [0, 500, 2500])
@KINDS
def test_a_graph_gives_what_a_call_gives(kind, slots):
    torch.backends.cuda.matmul.allow_tf32 = True
    layer = kind(30, 50, slots=slots, bidirectional=True, device="cuda", backend="cuda")
    x = torch.randn(9, 20, 30, device="cuda", requires_grad=True)
    inputs = [x, *(p for p in layer.parameters() if p.numel())]

    def step():
        output = layer(x)[0]
        return [output, *torch.autograd.grad(output.sin().sum(), inputs)]

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    for _ in range(2):
        with torch.no_grad():
            x.normal_()
        graph.replay()
        for ours, theirs in zip(recorded, step(), strict=True):
            assert torch.equal(ours, theirs)
