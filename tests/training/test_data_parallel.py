"""Texts shared by several processes are learnt as by one, up to rounding. Here the processes are threads."""

import copy
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Barrier, Thread

import pytest
import torch
from torch import nn

from memgrow import learning
from memgrow.data import Domain, Stream
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings, Trains
from memgrow.models import ModelSettings
from memgrow.models.pretrained.settings import PretrainedSettings
from memgrow.training.data_parallel import Buffers, DataParallel, share, whole_order
from memgrow.training.processes import check_processes
from memgrow.training.replica import Replica
from memgrow.training.settings import TrainingSettings
from tests.support.tiny_encoder import make_encoder

TRAINING = TrainingSettings(rate=1e-3, batch=20, epochs=1)
CPU = torch.device("cpu")


class Queues:
    """Rank 0's end of two queues; the replica's is within."""

    def __init__(self) -> None:
        self.there, self.back = SimpleQueue(), SimpleQueue()
        self.send, self.receive = self.there.put, self.back.get
        self.replica = type("Pipe", (), {"recv": lambda _: self.there.get(), "send": lambda _, it: self.back.put(it)})()


class Board:
    """An exchange between threads, each by its rank."""

    def __init__(self, count: int) -> None:
        self.barrier, self.shown = Barrier(count, timeout=60), [torch.empty(0)] * count

    def of(self, rank: int) -> "Member":
        return Member(self, rank)


class Member:
    def __init__(self, board: Board, rank: int) -> None:
        self.board, self.rank = board, rank

    def broadcast(self, buffer: torch.Tensor) -> None:
        self._meet(buffer)
        buffer.copy_(self.board.shown[0])
        self.board.barrier.wait()

    def reduce(self, buffer: torch.Tensor) -> None:
        self._meet(buffer)
        total = sum(self.board.shown[1:], self.board.shown[0])
        self.board.barrier.wait()
        if self.rank == 0:
            buffer.copy_(total)

    def _meet(self, buffer: torch.Tensor) -> None:
        self.board.shown[self.rank] = buffer.clone()
        self.board.barrier.wait()


@contextmanager
def in_threads(count, device, progress):
    """The same as `started`, without a process."""
    if count == 1:
        yield None
        return
    board, peers = Board(count), [Queues() for _ in range(1, count)]
    replicas = [Replica(peer.replica, board.of(rank), device) for rank, peer in enumerate(peers, 1)]
    threads = [Thread(target=replica.serve, daemon=True) for replica in replicas]
    for thread in threads:
        thread.start()
    yield DataParallel(peers, board.of(0))
    for peer, thread in zip(peers, threads, strict=True):
        peer.send(None)
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def cut(stream: Stream, rows: int) -> Stream:
    return Stream(replace(d, train=d.train[:rows], validation=d.validation[:7], test=d.test[:5]) for d in stream[:2])


@pytest.fixture(scope="module")
def even(stream) -> Stream:
    """Two batches of 20: every process has a share of every step, also of the first."""
    return cut(stream, 40)


@pytest.fixture(scope="module")
def odd(stream) -> Stream:
    """Batches of 20, 20 and 1, which rank 0 reads alone."""
    return cut(stream, 41)


@pytest.fixture
def shared(monkeypatch):
    monkeypatch.setattr(learning, "started", in_threads)


def make(folder: Path, method: str, **model) -> Learner:
    slots = 4 if method == "sparse" else 0
    settings = PretrainedSettings(encoder=str(folder), slots=slots, dropout=0.0, **model)
    options = MethodSettings(slots=4, fisher_examples=4, strength=50.0)
    return Learner.create(method, model=settings, training=TRAINING, options=options, device="cpu")


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return dict(learner.trained().state_dict())


def first_gradients(learner: Learner, domain: Domain, monkeypatch, **options):
    """What a domain's first step was about to move the weights by."""
    found, mask_gradients = [], Trains.mask_gradients

    def watched(self, model):
        found.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
        mask_gradients(self, model)

    with monkeypatch.context() as patched:
        patched.setattr(Trains, "mask_gradients", watched)
        learner.adapt(domain, **options)
    return found[0]


def assert_alike(ours: Learner, theirs: Learner) -> None:
    for (name, a), b in zip(weights(ours).items(), weights(theirs).values(), strict=True):
        # A softmax does not see what is added to all keys: the gradient is rounding alone, and Adam steps by its sign.
        allowed = 2 * TRAINING.rate if name.endswith("key.bias") else TRAINING.rate / 100
        assert (a - b).norm() <= allowed * a.numel() ** 0.5, name


@pytest.mark.parametrize("method", ["F+M", "EWC+M", "F+D", "sparse", "LoRA"])
def test_a_step_has_the_gradients_of_one_process(method, folder, even, shared, monkeypatch):
    alone = make(folder, method)
    alone.adapt(even[0])
    together = copy.deepcopy(alone)
    expected = first_gradients(alone, even[1], monkeypatch)
    found = first_gradients(together, even[1], monkeypatch, processes=3 if method == "F+M" else 2)
    assert found.keys() == expected.keys()
    size = max(gradient.norm() for gradient in expected.values())
    worst = max((found[name] - gradient).norm() / size for name, gradient in expected.items())
    assert worst <= 1e-5
    assert worst > 0, "the same bits: one process has read all"
    assert_alike(together, alone)


def test_a_batch_with_fewer_texts_than_processes_is_learnt_as_by_one(folder, odd, shared):
    alone, together = make(folder, "F+M"), make(folder, "F+M")
    alone.learn(odd)
    together.learn(odd, processes=3)
    assert_alike(together, alone)


class Chosen(nn.Module):
    """Texts that begin with an odd number have weights of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.odd, self.even = (nn.Embedding(9, 3) for _ in range(2))

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        odd = words[:, 0] % 2 == 1
        made = words.new_zeros(len(words), 3).float()
        for rows, table in ((odd, self.odd), (~odd, self.even)):
            if rows.any():
                made = made.index_put((rows,), table(words[rows, 0]))
        return made

    def prepared(self):
        return nullcontext()


def test_what_only_another_process_has_used_moves_too():
    """Where a text reads the slots of its nearest domains alone, the texts of one process may leave some unread."""

    alone, words, lengths = Chosen(), torch.tensor([[2], [3], [4]]), torch.ones(3, dtype=torch.long)
    shared = copy.deepcopy(alone)
    alone(words, lengths).square().sum().backward()
    with in_threads(2, CPU, None) as group:
        group.take(shared, list(shared.parameters()))
        with group.sharing(shared, training=True):
            shared(words, lengths).square().sum().backward()
            group.backward()
    for ours, theirs in zip(shared.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_sums_of_ridge_and_its_head_are_those_of_one_process(folder, odd, shared):
    alone, together = make(folder, "ridge", pairs="two"), make(folder, "ridge", pairs="two")
    alone.learn(odd)
    together.learn(odd, processes=3)
    for (name, a), b in zip(weights(alone).items(), weights(together).values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4, msg=name)
    assert alone.history.matrix == together.history.matrix


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_every_row_is_read_once_and_found_again(rows, count):
    batch = torch.randn(rows, 2)
    parts = [batch[share(rank, count)] for rank in range(count)]
    assert len(parts[0]) >= 1
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert torch.equal(torch.cat(parts)[whole_order(rows, count)], batch)


def test_tensors_of_several_kinds_travel_and_come_back():
    tensors = [torch.randn(2, 3), torch.randn(4).bfloat16(), torch.randn(()), torch.randn(1, 2).bfloat16()]
    buffers = Buffers(tensors)
    assert [buffer.dtype for buffer in buffers.whole] == [torch.float32, torch.bfloat16]
    buffers.fill([None if number == 2 else tensor for number, tensor in enumerate(tensors)])
    back = [torch.full_like(tensor, 7) for tensor in tensors]
    buffers.copy_to([*back[:3], None])
    assert torch.equal(back[0], tensors[0])
    assert torch.equal(back[1], tensors[1])
    assert float(back[2]) == 0
    assert bool((back[3] == 7).all())


def test_what_cannot_be_shared_is_refused_before_anything_is_read(folder, stream, tiny):
    with pytest.raises(SettingsError, match="processes must be at least 1, not 0"):
        make(folder, "F").adapt(stream[0], processes=0)
    with pytest.raises(SettingsError, match=r"2 processes share the texts of a pretrained encoder, and lstm is small"):
        Learner.create("F", model=tiny, device="cpu").learn(stream, processes=2)
    with pytest.raises(SettingsError, match=r"each of 200 processes needs a GPU of its own, and torch finds \d+"):
        check_processes(200, PretrainedSettings(), torch.device("cuda"))
    check_processes(1, ModelSettings(), CPU)
