"""The other processes of data-parallel training: each holds a copy of the encoder, and does what rank 0 asks."""

import io
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast

import torch
from torch import Tensor

from memgrow.device import is_out_of_memory
from memgrow.errors import brief
from memgrow.models import Encoder
from memgrow.training.data_parallel import Backward, Buffers, Exchange, Read, Request, Take, Weights


@dataclass(frozen=True)
class Failed:
    """The error that ended a replica."""

    what: str
    out_of_memory: bool

    @classmethod
    def by(cls, error: BaseException) -> "Failed":
        return cls(brief(error), is_out_of_memory(error))


class Pipe(Protocol):
    """The way to rank 0."""

    def send(self, answer: Any, /) -> None: ...
    def recv(self) -> Any: ...


class Replica:
    """A copy of the encoder. It remembers nothing from one step to the next but what it is given."""

    def __init__(self, pipe: Pipe, exchange: Exchange, device: torch.device) -> None:
        self.pipe, self.exchange, self.device = pipe, exchange, device
        self._prepared = ExitStack()
        self._vectors: Tensor | None = None

    def serve(self) -> None:
        """Do what is asked until None is."""
        while (request := self.pipe.recv()) is not None:
            self.HANDLERS[type(request)](self, request)

    def take(self, request: Take) -> None:
        self._prepared.close()
        self._vectors = None
        loaded = torch.load(io.BytesIO(request.packed), map_location=self.device, weights_only=False)
        self.encoder, self.parameters = cast(tuple[Encoder, Sequence[Tensor]], loaded)
        self.buffers = Buffers(self.parameters)

    def weights(self, request: Weights) -> None:
        self._prepared.close()
        for buffer in self.buffers.whole:
            self.exchange.broadcast(buffer)
        self.buffers.copy_to(self.parameters)
        self.encoder.train(request.training)
        if not request.training:
            self._prepared.enter_context(self.encoder.prepared())

    def read(self, request: Read) -> None:
        words, lengths = torch.from_numpy(request.words).to(self.device), torch.from_numpy(request.lengths)
        if request.seed is not None:
            torch.manual_seed(request.seed)
        with torch.set_grad_enabled(request.seed is not None):
            self._vectors = self.encoder(words, lengths)
        self.pipe.send(self._vectors.detach().cpu().numpy())

    def backward(self, request: Backward) -> None:
        vectors, self._vectors = self._vectors, None
        for parameter in self.parameters:
            parameter.grad = None
        if vectors is not None and vectors.requires_grad and request.gradient is not None:
            vectors.backward(torch.from_numpy(request.gradient).to(self.device))  # type: ignore[no-untyped-call]
        found = [parameter.grad for parameter in self.parameters]
        self.buffers.fill(found)
        self.pipe.send([number for number, gradient in enumerate(found) if gradient is not None])
        for buffer in self.buffers.whole:
            self.exchange.reduce(buffer)

    HANDLERS: ClassVar[dict[type[Request], Callable[..., None]]] = {
        Take: take,
        Weights: weights,
        Read: read,
        Backward: backward,
    }
