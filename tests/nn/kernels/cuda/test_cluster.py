"""The cluster kernels themselves, on an emulated machine, against the plain loop in double precision."""

import pytest
import torch

from memgrow.nn import MemoryGRU, MemoryLSTM
from memgrow.nn.kernels.cuda import cluster, cluster_plan, gemms
from memgrow.nn.kernels.cuda.cluster import ClusterKernel
from memgrow.nn.kernels.cuda.cluster_plan import Clusters, Kept, Sizes
from memgrow.nn.kernels.cuda.layer import Layer
from tests.nn.kernels.cuda import emulator
from tests.support.layers import distance, results, twins

pytestmark = [
    pytest.mark.emulated,
    pytest.mark.skipif(emulator.compiler() is None, reason="needs a C++ compiler"),
]

# cell, (input, hidden, slots, slot size), lengths, both directions, rows of a cluster, whether it reads contents; and,
# where it is not SIZE and 1, blocks of a cluster and clusters of a team
CASES = {
    "lstm": (MemoryLSTM, (5, 21, 37, 3), [3, 1, 4, 4, 2], True, 16, False),
    "gru": (MemoryGRU, (5, 21, 37, 3), [3, 1, 4, 4, 2], True, 16, False),
    "rows of whole vectors": (MemoryGRU, (520, 24, 40, 12), [2, 1], True, 16, False),
    "no memory": (MemoryLSTM, (4, 9, 0, None), [2, 3], False, 16, False),
    "two clusters of rows": (MemoryGRU, (3, 5, 9, 2), [1 + n % 3 for n in range(18)], False, 16, False),
    "several passes": (MemoryLSTM, (3, 170, 330, 4), [2, 1], False, 16, False),
    "several passes, gru": (MemoryGRU, (3, 170, 330, 4), [2, 1], False, 16, False),
    "gru, gates in whole words": (MemoryGRU, (3, 64, 37, 4), [2, 1, 2], True, 16, False),
    "contents": (MemoryLSTM, (5, 21, 37, 3), [3, 1, 4, 4, 2], True, 16, True),
    "contents, 24 rows": (MemoryGRU, (3, 21, 77, 33), [1 + n % 3 for n in range(27)], True, 24, True),
    "contents, 32 rows": (MemoryLSTM, (3, 13, 77, 2), [1 + n % 3 for n in range(35)], False, 32, True),
    "contents, several passes, gru": (MemoryGRU, (3, 170, 330, 170), [2, 1], False, 24, True),
    "contents, several passes": (MemoryLSTM, (3, 170, 530, 370), [2, 1], False, 16, True),
    "24 rows": (MemoryGRU, (3, 21, 37, 2), [1 + n % 3 for n in range(27)], False, 24, False),
    "32 rows": (MemoryLSTM, (3, 21, 37, 2), [1 + n % 3 for n in range(37)], True, 32, False),
    "32 rows, no memory": (MemoryGRU, (4, 9, 0, None), [1 + n % 3 for n in range(31)], False, 32, False),
    "24 rows, several passes": (MemoryLSTM, (3, 170, 330, 4), [2, 1], False, 24, False),
    "one full pass": (MemoryLSTM, (3, 160, 100, 4), [2, 1], False, 16, False),
    "24 rows, one full pass": (MemoryGRU, (3, 80, 100, 4), [2, 1], False, 24, False),
    "a team": (MemoryLSTM, (5, 21, 37, 3), [3, 1, 4, 4, 2], True, 16, False, (2, 3)),
    "a team of blocks": (MemoryGRU, (5, 21, 37, 3), [1 + n % 3 for n in range(27)], True, 16, False, (1, 5)),
    "a team, 24 rows, one full pass": (MemoryGRU, (3, 80, 100, 4), [2, 1], False, 24, False, (4, 2)),
    "32 rows, contents, one full pass": (MemoryLSTM, (3, 140, 60, 40), [2, 1], False, 32, True),
}
# blocks that each warp has in registers, if there are that many; whether the rest is on the chip, too
KEPT = {"near": (0, True), "streams": (0, False), "held": (1, True), "held, streams": (2, False)}
WHICH = {  # of these, where not both of the first
    "rows of whole vectors": ["near"],
    "two clusters of rows": ["streams"],
    "several passes": ["streams"],
    "several passes, gru": ["near", "held, streams"],
    "contents, several passes": ["near"],
    "contents, several passes, gru": ["streams"],
    "24 rows, several passes": ["streams"],
    "32 rows, no memory": ["near"],
    "gru": ["near", "held, streams"],
    "contents": ["streams", "held"],
    "32 rows": ["near", "held, streams"],
    **{case: ["held", "held, streams"] for case in CASES if "one full pass" in case},
}
SIZE = 8  # blocks of a cluster
STRONG = 4  # times larger weights than usual, so that a wrong slot or unit shows


def poisoned(memory):
    """Full of what is not a number in any format, as memory may be that others have left."""
    memory.view(torch.uint8).fill_(255)
    return memory


@pytest.fixture
def emulated(monkeypatch, case):
    rows_and_contents, sharing = CASES[case][4:6], (CASES[case] + ((SIZE, 1),))[6]
    for module in (gemms, cluster):
        monkeypatch.setattr(module.nvrtc, "launch", emulator.launch)
        monkeypatch.setattr(module.nvrtc, "prepare", emulator.prepare)
        monkeypatch.setattr(module, "processors", lambda device: 1)
    monkeypatch.setattr("memgrow.nn.kernels.choose", lambda *_: ("cuda", "for the test"))
    new = Layer.new
    monkeypatch.setattr(Layer, "new", lambda *args, **kind: poisoned(new(*args, **kind)))

    def kernel_for(layer, slot_size, exact):
        sizes = Sizes(layer.cell, layer.directions, layer.batch, layer.hidden, layer.slots, slot_size)
        plan = Clusters.of(*sharing, *rows_and_contents, sizes)
        assert plan is not None
        return ClusterKernel(layer, plan)

    monkeypatch.setattr(gemms, "kernel_for", kernel_for)
    known = (cluster._program, cluster.prepare)  # what is kept on the chip is another matter in each test
    for one in known:
        one.cache_clear()
    yield
    for one in known:
        one.cache_clear()


@pytest.mark.parametrize(
    ("case", "kept"), [(case, kept) for case in CASES for kept in WHICH.get(case, ["near", "streams"])]
)
def test_the_kernels_equal_the_plain_loop(case, kept, emulated, monkeypatch):
    kind, sizes, lengths, both, *_ = CASES[case]
    some, near = KEPT[kept]

    def keep(self, forward):
        held = min(some, self.most_held(forward))
        if near:  # as far as it fits
            whole = self.beside(held, 0, forward)
            return self.beside(held, 2, forward) if self.streams(whole, forward) else whole
        return Kept(held, (0,) * len(self.packs(forward)), 2, self.fixed(forward) + self.ring(2, forward))

    monkeypatch.setattr(Clusters, "kept", keep)
    # The emulator has as many registers as one likes.
    monkeypatch.setattr(cluster_plan, "FREE", dict.fromkeys(cluster_plan.FREE, (80, 80)))
    check(kind, sizes, lengths, both)


@pytest.mark.parametrize("case", ["no memory", "gru", "contents", "a team", "a team of blocks"])
def test_messages_may_come_late_and_in_any_order(case, emulated, monkeypatch):
    monkeypatch.setattr(emulator, "late", 90)
    check(*CASES[case][:4])


def check(kind, sizes, lengths, both):
    fast, plain = twins(kind, sizes, "auto", biased=True, bidirectional=both)
    with torch.no_grad():
        for name, parameter in [*fast.named_parameters(), *plain.named_parameters()]:
            parameter.mul_(STRONG if "keys" in name or "values" in name or "weight_hh" in name else 1)
    sequences = [torch.randn(length, sizes[0]) for length in lengths]
    ours = results(fast, sequences)
    with pytest.MonkeyPatch.context() as undone:
        undone.setattr("memgrow.nn.kernels.choose", lambda *_: ("naive", "asked for"))
        theirs = results(plain, [s.double() for s in sequences])
    for name, value in theirs.items():
        if value.norm() > 1e-7:
            assert distance(ours[name], value) < 4e-3, name
