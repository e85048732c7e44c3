"""Data-parallel reading of texts by a pretrained encoder: each of several processes takes a share of every batch.

The first process, rank 0, does all that one process does. Only the encoder's forward and backward passes are shared: a
replica in each other process is given the weights before a step, its share of the texts, and then the gradient of the
vectors that it made of them. The gradients of all are summed before anything looks at them. So a step is that of one
process up to rounding, whatever a method's hooks do in it, and rank 0's state is all that a resumed run needs.
With dropout the result depends on the number of processes, as each draws for its own share.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded
from memgrow.errors import SettingsError, brief
from memgrow.methods import Plugins, Trains
from memgrow.models import Model
from memgrow.seeding import derive
from memgrow.training.plain_stepper import PlainStepper
from memgrow.training.settings import TrainingSettings


@dataclass(frozen=True)
class Take:
    """Hold this encoder, and the parameters that will change: both in one file, as parameters are parts of it."""

    packed: bytes


@dataclass(frozen=True)
class Weights:
    """Take part in a broadcast of the parameters, to train or to answer with them."""

    training: bool


@dataclass(frozen=True)
class Read:
    """Answer with the vectors of texts (R, T); with a seed, for chance in training, a backward pass may follow."""

    words: NDArray[np.int64]
    lengths: NDArray[np.int64]
    seed: int | None


@dataclass(frozen=True)
class Backward:
    """Take the gradient of the vectors just made back to the parameters, and take part in summing theirs.

    The answer are the numbers of those that have one. None is for who had no share of the batch.
    """

    gradient: NDArray[np.float32] | None


Request = Take | Weights | Read | Backward


class Peer(Protocol):
    """Another process, as rank 0 knows it."""

    def send(self, request: Request) -> None: ...
    def receive(self) -> Any: ...


class Exchange(Protocol):
    """What all processes do to a buffer that each has."""

    def broadcast(self, buffer: Tensor) -> None:
        """Let everybody have rank 0's."""

    def reduce(self, buffer: Tensor) -> None:
        """Let rank 0 have the sum."""


class Buffers:
    """Tensors one after another, in one buffer for each kind of number, so that they travel at once."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        kinds = dict.fromkeys(tensor.dtype for tensor in tensors)
        groups = [[number for number, tensor in enumerate(tensors) if tensor.dtype == kind] for kind in kinds]
        self.whole = [torch.cat([tensors[number].detach().flatten() for number in group]) for group in groups]
        self.parts: list[Tensor] = [torch.empty(0)] * len(tensors)
        for buffer, group in zip(self.whole, groups, strict=True):
            sizes = [tensors[number].numel() for number in group]
            for number, part in zip(group, torch.split(buffer, sizes), strict=True):
                self.parts[number] = part.view(tensors[number].shape)

    @torch.no_grad()
    def fill(self, tensors: Sequence[Tensor | None]) -> None:
        """Copy the tensors in; None is zeros."""
        for part, tensor in zip(self.parts, tensors, strict=True):
            part.zero_() if tensor is None else part.copy_(tensor)

    @torch.no_grad()
    def copy_to(self, tensors: Sequence[Tensor | None]) -> None:
        """Copy what is here to the tensors, but for those that are None."""
        for part, tensor in zip(self.parts, tensors, strict=True):
            if tensor is not None:
                tensor.copy_(part)


def share(rank: int, count: int) -> slice:
    """The rows of a batch that one of so many processes takes; long and short ones, first and second texts alike."""
    return slice(rank, None, count)


def whole_order(rows: int, count: int) -> Tensor:
    """Where each row of a batch is when the shares of all processes stand one after another."""
    shared = torch.cat([torch.arange(rows)[share(rank, count)] for rank in range(count)])
    return torch.argsort(shared)


class DataParallel:
    """Rank 0's side: lets an encoder that it holds be read by all processes, while that is asked for."""

    def __init__(self, peers: Sequence[Peer], exchange: Exchange) -> None:
        self.peers, self.exchange = peers, exchange
        self.count = len(peers) + 1
        self._parameters: list[Tensor] = []
        self._buffers = Buffers(())
        self._training = False
        self._rows = 0
        self._made: Tensor | None = None  # our share of the vectors, while a backward pass may follow
        self._vectors: list[Tensor] = []  # everybody's, as the rest of the model has them

    def take(self, encoder: nn.Module, parameters: Sequence[Tensor] = ()) -> None:
        """Hand an encoder to all, and say which parameters will change."""
        self._parameters, file = list(parameters), io.BytesIO()
        self._buffers = Buffers(self._parameters)
        try:
            torch.save((encoder, self._parameters), file)
        except Exception as error:  # of whatever somebody has put into it
            raise SettingsError(
                f"this encoder cannot be handed to other processes ({brief(error)}): train in one process"
            ) from error
        self._tell(Take(file.getvalue()))

    @contextmanager
    def sharing(self, encoder: nn.Module, training: bool = False) -> Iterator[None]:
        """Within, what the encoder is given is read by all. Its weights must not change, unless it is trained."""
        self._training = training
        if not training:
            self._send_weights()
        hooks = [encoder.register_forward_pre_hook(self._split), encoder.register_forward_hook(self._join)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def backward(self) -> None:
        """Take the vectors' gradient, which the rest of the model has given them, back to the encoder's parameters."""
        if self._made is None:
            return
        made, vectors, self._made, self._vectors = self._made, self._vectors, None, []
        gradients = [vector.grad for vector in vectors]
        for peer, gradient in zip(self.peers, [*gradients[1:], *[None] * self.count], strict=False):
            peer.send(Backward(None if gradient is None else gradient.cpu().numpy()))
        if made.requires_grad:
            made.backward(gradients[0])  # type: ignore[no-untyped-call]
        for peer in self.peers:  # before all meet: who has failed does not come
            for number in peer.receive():  # of parameters that its texts have used, and perhaps not ours
                if (parameter := self._parameters[number]).grad is None:
                    parameter.grad = torch.zeros_like(parameter)
        own = [parameter.grad for parameter in self._parameters]
        self._buffers.fill(own)
        for buffer in self._buffers.whole:
            self.exchange.reduce(buffer)
        self._buffers.copy_to(own)

    def _split(self, encoder: nn.Module, given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        words, lengths = given
        self._rows = len(words)
        if self._training:
            self._send_weights()
        # From rank 0's generator, which a resumed run finds as it was.
        seed = int(torch.randint(1 << 62, ())) if self._training else None
        for rank, peer in self._sharing():
            some = _cut(words[share(rank, self.count)], lengths[share(rank, self.count)])
            peer.send(Read(some[0].cpu().numpy(), some[1].numpy(), None if seed is None else derive(seed, rank)))
        return _cut(words[share(0, self.count)], lengths[share(0, self.count)])

    def _join(self, encoder: nn.Module, given: Any, made: Tensor) -> Tensor:
        parts = [made, *(torch.from_numpy(peer.receive()).to(made.device) for _, peer in self._sharing())]
        if self._training and self._parameters:  # cut here: the others begin their way back when ours begins
            self._made = made
            self._vectors = parts = [part.detach().requires_grad_() for part in parts]
        return torch.cat(parts)[whole_order(self._rows, self.count).to(made.device)]

    def _sharing(self) -> list[tuple[int, Peer]]:
        """Those who have a share of the batch, with their ranks."""
        return list(enumerate(self.peers, 1))[: self._rows - 1]

    def _send_weights(self) -> None:
        self._tell(Weights(self._training))
        self._buffers.fill(self._parameters)
        for buffer in self._buffers.whole:
            self.exchange.broadcast(buffer)

    def _tell(self, request: Request) -> None:
        for peer in self.peers:
            peer.send(request)


def _cut(words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Without padding that is longer than the longest of these texts."""
    return words[:, : int(lengths.max())], lengths


class ParallelStepper(PlainStepper):
    """Trains one model with a pretrained encoder, whose texts are read by all processes of a group."""

    def __init__(
        self,
        model: Model,
        data: Encoded,
        validation: Encoded,
        *,
        settings: TrainingSettings,
        trains: Trains,
        plugins: Plugins,
        group: DataParallel,
    ) -> None:
        super().__init__(model, data, validation, settings=settings, trains=trains, plugins=plugins)
        self.group, head = group, set(map(id, model.head_parameters()))
        group.take(model.encoder, [one for one in self.optimiser.parameters.values() if id(one) not in head])

    def step(self, batch: Batch) -> int:
        with self.group.sharing(self.model.encoder, training=True):
            return super().step(batch)

    def backward(self, loss: Tensor) -> None:
        super().backward(loss)
        self.group.backward()

    def score(self) -> list[float]:
        with self._evaluated(), self.group.sharing(self.model.encoder):
            return [self.model.score(self.validation)]
