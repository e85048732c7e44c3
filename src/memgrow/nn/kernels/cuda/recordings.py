"""Calls of a layer that repeat, recorded as CUDA graphs and replayed: launching them takes longer than running them.

A call repeats where shapes, precision and stream are the same and the parameters lie where they lay. What else goes in
is copied into memory that the graphs read, and what comes out is copied from where they leave it: so a caller's tensors
are his own, as with the naive twin, which is `Run`.
"""

import gc
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from memgrow.nn.kernels.cuda.gemms import Run
from memgrow.nn.kernels.cuda.layer import exact, steps_of

T = TypeVar("T")
Tensors = Sequence[Tensor | None]

BEFORE = 3  # calls that run as they are before one is recorded: who calls once or twice pays for nothing
MOST = 8  # recordings of a layer
LARGEST = 1 << 27  # bytes that a call's backward pass needs: above this the GPU takes longer than Python
FORGOTTEN = 1000  # calls after which a recording that was not replayed gives way, or one that failed is tried again
MOST_SEEN = 512  # kinds of calls that are counted

_streams: dict[torch.device, Any] = {}  # on which calls are recorded


class Call(NamedTuple):
    """A call of all directions of a layer, but for its tensors."""

    cell: str
    batch_sizes: tuple[int, ...]
    reverse: tuple[bool, ...]
    trains: bool
    wants_x: bool  # whether the inputs get a gradient

    def run(self, tensors: Tensors) -> Run:
        return Run(self.cell, self.batch_sizes, self.reverse, tensors, self.trains)


class Recordings:
    """What has been recorded of one layer's calls. A copy of a layer begins with none."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._seen: dict[Hashable, int] = {}  # how often, by kind of call
        self._recorded: dict[Hashable, Recording] = {}
        self._calls = 0

    def __len__(self) -> int:
        return len(self._recorded)

    def __reduce__(self) -> tuple[Any, ...]:
        return Recordings, ()

    def clear(self) -> None:
        """Give all memory back: parameters are no longer where they were."""
        with self._lock:
            self._seen.clear()
            self._recorded.clear()

    def replay(self, call: Call, tensors: Tensors) -> "tuple[Replay | None, list[Tensor]] | None":
        """What a recorded call gives, and for one that trains, what its backward pass needs; None if it is none."""
        assert tensors[0] is not None
        device = tensors[0].device
        stream = stream_of(device)
        if stream is None:
            return None
        key = (call, device, stream, exact(tensors[0].dtype), tuple(map(_kind, tensors)))
        with self._lock:
            self._calls += 1
            recording = self._recorded.get(key)
            if recording is None:
                recording = self._record(key, call, tensors)
            if recording is None or recording.busy:
                return None
            recording.used = self._calls
            return recording.forward(tensors)

    def _record(self, key: Hashable, call: Call, tensors: Tensors) -> "Recording | None":
        """Record a call that has come often enough, if there is room."""
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        count = self._seen[key] = self._seen.get(key, 0) + 1
        if count <= BEFORE or not self._has_room(call, tensors):
            return None
        try:
            with torch.inference_mode(False), torch.no_grad():
                recording = Recording(call, tensors, self._lock)
        except RuntimeError:  # out of memory, or what was called cannot be recorded: it goes on as it did
            self._seen[key] = -FORGOTTEN
            return None
        self._recorded[key] = recording
        return recording

    def _has_room(self, call: Call, tensors: Tensors) -> bool:
        if traced_bytes(call, tensors) > LARGEST:
            return False
        if len(self._recorded) < MOST:
            return True
        oldest = min(self._recorded, key=lambda key: self._recorded[key].used)
        if self._calls - self._recorded[oldest].used < FORGOTTEN:
            return False
        del self._recorded[oldest]
        return True


class Recording:
    """The graphs of one call, and the memory that they read and write."""

    def __init__(self, call: Call, tensors: Tensors, lock: threading.RLock) -> None:
        assert tensors[0] is not None
        self.call, self.lock, self.used = call, lock, 0
        self._tensors = [
            t if t is None else t.detach() if _stays(t) else torch.zeros_like(t, memory_format=torch.contiguous_format)
            for t in tensors
        ]
        self._copied = [number for number, t in enumerate(tensors) if t is not None and not _stays(t)]
        self._inputs = _present([self._tensors[number] for number in self._copied])
        self._owner: weakref.ref[Replay] | None = None  # the last call that trains
        self._pending = False  # whether its backward pass is still to come
        device = tensors[0].device
        steps_of(call.batch_sizes, device)  # made now, as it comes from the CPU, which cannot be recorded
        recorder = Recorder(device)
        self._forward, self._outputs = recorder.record(self._run_forward)
        if call.trains:
            self._d_outputs = [torch.zeros_like(t) for t in self._outputs]
            self._backward, self._gradients = recorder.record(self._run_backward)

    # What is recorded. A graph repeats what these did, without calling them again.

    def _run_forward(self) -> list[Tensor]:
        self._run = self.call.run(self._tensors)
        return list(self._run.forward())

    def _run_backward(self) -> list[Tensor | None]:
        return self._run.backward(self._d_outputs[0], self._d_outputs[1:], [self.call.wants_x])

    @property
    def busy(self) -> bool:
        """Whether the backward pass of the last call may still come: another call would overwrite what it needs."""
        return self._pending and self._owner is not None and self._owner() is not None

    def forward(self, tensors: Tensors) -> "tuple[Replay | None, list[Tensor]]":
        torch._foreach_copy_(self._inputs, _present([tensors[number] for number in self._copied]))
        self._forward()
        outputs = _copies(self._outputs)
        if not self.call.trains:
            return None, outputs
        replay = Replay(self)
        self._owner, self._pending = weakref.ref(replay), True
        return replay, outputs

    def holds(self, replay: "Replay") -> bool:
        """Whether what the call left for its backward pass is still there."""
        return self._owner is not None and self._owner() is replay

    def backward(self, d_outputs: Sequence[Tensor]) -> list[Tensor | None]:
        torch._foreach_copy_(self._d_outputs, list(d_outputs))
        self._backward()
        copies = iter(_copies(_present(self._gradients)))
        self._pending = False  # a second backward pass is rare: it is computed anew if the next call came before it
        return [None if gradient is None else next(copies) for gradient in self._gradients]


class Replay:
    """One call that was replayed, until its backward pass. It has no tensors: outputs would keep it alive."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def backward(self, tensors: Tensors, d_outputs: Sequence[Tensor]) -> list[Tensor | None]:
        """The gradients of the `tensors`, which must be what they were in the call."""
        recording = self._recording
        with recording.lock:
            if recording.holds(self):
                return recording.backward(d_outputs)
        run = recording.call.run(tensors)
        run.forward()
        return run.backward(d_outputs[0], d_outputs[1:], [recording.call.wants_x])


class Recorder:
    """Records works that follow each other: what the first leaves, the second finds."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool = device, torch.cuda.graph_pool_handle()
        if device not in _streams:
            _streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def record(self, work: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """What replays a work, and where it leaves its results. It is not run yet."""
        stream = _streams[self._device]
        with torch.cuda.stream(stream):
            some = torch.ones(64, 64, device=self._device)
            torch.mm(some, some)  # cuBLAS takes its workspace, which must not be memory of a graph
        graph, results = captured(work, stream, self._pool, errors="thread_local")
        return graph.replay, results


def captured(work: Callable[[], T], stream: Any, pool: Any, errors: str = "global") -> tuple[torch.cuda.CUDAGraph, T]:
    """A graph of what a work does on a stream, and its results; `errors` says whose calls could spoil it."""
    graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream(stream.device)
    stream.wait_stream(here)
    collecting = gc.isenabled()
    gc.disable()  # a graph of earlier work, freed while this one is recorded, would spoil it
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=pool, capture_error_mode=errors)
            try:
                results = work()
            finally:
                graph.capture_end()
    finally:
        if collecting:
            gc.enable()
    here.wait_stream(stream)
    return graph, results


def stream_of(device: torch.device) -> int | None:
    """The stream on which a call would be replayed; None where it cannot be, as one that is recorded by its caller."""
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return None
    return int(torch.cuda.current_stream(device).cuda_stream)


def traced_bytes(call: Call, tensors: Tensors) -> int:
    """About what a call leaves for its backward pass: states, gates and attention of every step."""
    *_, hh, _, _, keys, _, _ = tensors
    assert hh is not None
    slots = 0 if keys is None else len(keys)
    return 4 * sum(call.batch_sizes) * len(call.reverse) * (6 * hh.shape[1] + slots)


def _kind(tensor: Tensor | None) -> Hashable:
    """What must be the same of a tensor for a graph to be replayed."""
    if tensor is None:
        return None
    if _stays(tensor):
        return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()
    return tensor.dtype, tensor.shape


def _stays(tensor: Tensor) -> bool:
    """Whether a tensor lies where it lies for long: a parameter, which optimisers change in place."""
    return type(tensor) is nn.Parameter


def _present(tensors: Tensors) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]


def _copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    copies = [torch.empty_like(tensor) for tensor in tensors]
    torch._foreach_copy_(copies, list(tensors))
    return copies
