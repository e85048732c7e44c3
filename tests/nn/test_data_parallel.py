"""torch's DistributedDataParallel trains a layer, and after growth goes on if it is made anew."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from memgrow.nn import MemoryLSTM, ResidualMemory

pytestmark = [
    pytest.mark.extras,  # starts processes that import torch
    pytest.mark.skipif(not dist.is_available(), reason="this torch is built without torch.distributed"),
]
PROCESSES, STEPS = 2, 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = MemoryLSTM(3, 4, slots=5, bidirectional=True)
        self.memory = ResidualMemory(8, key_size=4, best=2, slots=3)

    def forward(self, x):
        return self.memory(self.recurrent(x)[0])

    def grow(self, optimiser):
        generator = torch.Generator().manual_seed(7)  # new slots must be the same in all processes
        self.recurrent.grow(slots=2, optimiser=optimiser, generator=generator)
        self.memory.grow(2, optimiser=optimiser, generator=generator)


def batches():
    draw = torch.Generator().manual_seed(1)
    return [torch.randn(4, 2 * PROCESSES, 3, generator=draw) for _ in range(2 * STEPS)]


def train(net, wrap, share):
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for stage in range(2):
        wrapped = wrap(net)
        for x in batches()[stage * STEPS : (stage + 1) * STEPS]:
            optimiser.zero_grad()
            wrapped(share(x)).square().mean().backward()
            optimiser.step()
        if not stage:
            net.grow(optimiser)
    return {name: parameter.detach() for name, parameter in net.named_parameters()}


def one_process(rank, path, net, results):
    torch.set_num_threads(1)
    net = copy.deepcopy(net)  # what is handed to several processes lies in memory that they share
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=PROCESSES)
    try:
        wrap = lambda module: DistributedDataParallel(module, find_unused_parameters=True)  # noqa: E731
        found = train(net, wrap, lambda x: x[:, 2 * rank : 2 * rank + 2])
        results[rank] = {name: tensor.tolist() for name, tensor in found.items()}
    finally:
        dist.destroy_process_group()


def test_two_processes_learn_what_one_learns_also_after_growth(tmp_path):
    torch.manual_seed(0)
    net = Net()
    expected = train(copy.deepcopy(net), lambda module: module, lambda x: x)
    with multiprocessing.Manager() as manager:
        results = manager.dict()
        multiprocessing.spawn(one_process, (tmp_path / "meeting", net, results), nprocs=PROCESSES)
        found = dict(results)
    for rank in range(PROCESSES):
        for name, tensor in expected.items():
            torch.testing.assert_close(torch.tensor(found[rank][name]), tensor, msg=name)
