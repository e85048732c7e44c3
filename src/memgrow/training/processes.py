"""The processes of data-parallel training: started by the first of them, joined by torch.distributed, ended together.

What is small goes through pipes, weights and gradients through NCCL on GPUs and Gloo on a CPU. A replica that fails or
dies is noticed at its pipe, and one whose first process has died ends at the end of its own.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from memgrow.errors import MemgrowError, SettingsError
from memgrow.models import ModelSettings
from memgrow.piped_process import READY, TIMEOUT_S, PipedProcess, begin
from memgrow.progress import Progress
from memgrow.training.data_parallel import DataParallel, Request
from memgrow.training.replica import Failed, Replica

BACKENDS = {"cuda": "nccl", "cpu": "gloo"}
LOOPBACK = ("lo", "lo0")  # as Linux and macOS call it
MEETING_S = 300.0  # for all to meet: each is at its pipe when it is called


def check_processes(count: int, settings: ModelSettings, device: torch.device) -> None:
    """Refuse a number of processes that a model of these settings cannot be trained by on this machine."""
    if count < 1:
        raise SettingsError(f"processes must be at least 1, not {count}")
    if count == 1:
        return
    if not settings.kind.is_pretrained:
        raise SettingsError(
            f"{count} processes share the texts of a pretrained encoder, and {settings.cell} is small enough for one: "
            "leave the processes out, or give an encoder (--encoder)"
        )
    if device.type == "cuda" and torch.cuda.device_count() < count:
        raise SettingsError(
            f"each of {count} processes needs a GPU of its own, and torch finds {torch.cuda.device_count()}: "
            "use as many processes as there are GPUs, or the device cpu"
        )
    if not dist.is_available():
        raise SettingsError("this torch was built without torch.distributed: use one process, or install another torch")
    if dist.is_initialized():
        raise SettingsError(
            "this process is one of a torch.distributed group already, and memgrow starts its own: use one process"
        )


@dataclass(frozen=True)
class Place:
    """All that a process has to know to find the others, and to compute as the first one does."""

    rank: int
    count: int
    store: str  # a file through which they find each other
    device: str
    threads: int
    precision: str  # of products on a GPU

    def arrange(self) -> torch.device:
        """Take one's own part of the machine."""
        torch.set_num_threads(self.threads)
        torch.set_float32_matmul_precision(self.precision)
        if self.device != "cuda":
            return torch.device(self.device)
        torch.cuda.set_device(self.rank)
        return torch.device("cuda", self.rank)


class Distributed:
    """Buffers that travel by torch.distributed; the processes join when they first do."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @cached_property
    def joined(self) -> bool:
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):  # nothing listens beyond this machine
            names = [name for _, name in socket.if_nameindex() if name in LOOPBACK]
            if names:
                os.environ.setdefault(variable, names[0])
        dist.init_process_group(
            BACKENDS[self.place.device],
            init_method=f"file://{self.place.store}",
            rank=self.place.rank,
            world_size=self.place.count,
            timeout=timedelta(seconds=MEETING_S),
        )
        return True

    def broadcast(self, buffer: Tensor) -> None:
        assert self.joined
        dist.broadcast(buffer, src=0)

    def reduce(self, buffer: Tensor) -> None:
        assert self.joined
        dist.reduce(buffer, dst=0)

    def close(self) -> None:
        if "joined" in vars(self):
            dist.destroy_process_group()


class ReplicaProcess(PipedProcess):
    """A process with a replica."""

    def __init__(self, place: Place) -> None:
        super().__init__(_serve, place)
        self.name = f"process {place.rank + 1} of {place.count}"

    def send(self, request: Request) -> None:
        if not self.ready:
            self.ready = self.receive() == READY
        try:
            self.pipe.send(request)
        except OSError:
            raise self.lost() from None

    def receive(self) -> Any:
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):
            raise self.lost() from None
        if isinstance(answer, Failed):
            if answer.out_of_memory:
                raise MemoryError
            raise RuntimeError(f"{self.name} failed: {answer.what}")
        return answer

    def lost(self) -> MemgrowError:
        """The sentence about a process that has died."""
        how = self.how_it_died(self.name, "one process")
        return SettingsError(
            f"{self.name} died ({how}), perhaps for want of memory; what was saved before is unchanged: run the same "
            "again to go on from there, with fewer processes or a smaller batch"
        )

    def stop(self) -> None:
        """Ask it to end, or terminate it if it has not begun to listen."""
        if not self.ready:
            self.process.terminate()
        with suppress(OSError):
            self.pipe.send(None)


class Meeting:
    """An exchange that says who is missing."""

    def __init__(self, exchange: Distributed, peers: list[ReplicaProcess]) -> None:
        self.exchange, self.peers = exchange, peers

    def broadcast(self, buffer: Tensor) -> None:
        with self._told():
            self.exchange.broadcast(buffer)

    def reduce(self, buffer: Tensor) -> None:
        with self._told():
            self.exchange.reduce(buffer)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            for peer in self.peers:
                peer.process.join(TIMEOUT_S)
                if not peer.process.is_alive():
                    raise peer.lost() from error
            raise


@contextmanager
def started(count: int, device: torch.device, progress: Progress) -> Iterator[DataParallel | None]:
    """So many processes, this one among them, until all are ended; None for one."""
    if count == 1:
        yield None
        return
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory(prefix="memgrow-", ignore_cleanup_errors=True) as folder:
        places = [
            Place(
                rank,
                count,
                str(Path(folder, "store")),
                device.type,
                max(1, threads // count),
                torch.get_float32_matmul_precision(),
            )
            for rank in range(count)
        ]
        kind = "GPUs" if device.type == "cuda" else f"processes of {places[0].threads} thread(s)"
        progress.note(f"the texts of each batch are shared by {count} {kind}")
        peers = [ReplicaProcess(place) for place in places[1:]]
        exchange = Distributed(places[0])
        try:
            places[0].arrange()
            yield DataParallel(peers, Meeting(exchange, peers))
        finally:
            for peer in peers:
                peer.stop()
            for peer in peers:
                peer.join()
            exchange.close()
            torch.set_num_threads(threads)


def _serve(pipe: Connection, place: Place) -> None:
    """The main function of a replica's process."""
    exchange = Distributed(place)
    try:
        device = place.arrange()
        with suppress(EOFError, OSError):
            begin(pipe)
            Replica(pipe, exchange, device).serve()
    except Exception as error:
        with suppress(OSError):
            pipe.send(Failed.by(error))
    finally:
        exchange.close()
        shutil.rmtree(Path(place.store).parent, ignore_errors=True)  # the first process may have been killed
