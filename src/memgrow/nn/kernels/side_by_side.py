"""Products of a GPU that do not need each other: side by side where a CUDA graph is recorded, as few fill it alone.

Elsewhere Python takes longer to ask for them than the GPU to make them, and they come one after another.
"""

import threading
from collections.abc import Callable
from typing import Any

import torch

MOST = 4
_streams: dict[torch.device, list[torch.cuda.Stream]] = {}
_ready: set[tuple[torch.device, int]] = set()  # devices, and the threads that have multiplied on their streams


def side_by_side(device: torch.device, *works: Callable[[], Any]) -> list[Any]:
    """What each of them gives. They read what was there before; none may change what another reads."""
    assert len(works) <= MOST
    if device.type != "cuda":
        return [work() for work in works]
    here, known = torch.cuda.current_stream(device), (device, threading.get_ident())
    if not torch.cuda.is_current_stream_capturing():
        if known not in _ready:
            _prepare(device)
            _ready.add(known)
        return [work() for work in works]
    others = _streams[device][: max(0, len(works) - 1)] if known in _ready else []
    for stream in others:
        stream.wait_stream(here)
    found = []
    for number, work in enumerate(works):
        with torch.cuda.stream(others[number - 1] if 0 < number <= len(others) else here):
            found.append(work())
    for stream in others:
        here.wait_stream(stream)
    return found


def _prepare(device: torch.device) -> None:
    """Multiply once on each stream: what products need for it, in each thread, must not be of a graph's memory."""
    if device not in _streams:
        _streams[device] = [torch.cuda.Stream(device) for _ in range(MOST - 1)]  # type: ignore[no-untyped-call]
    here, some = torch.cuda.current_stream(device), torch.ones(64, 64, device=device)
    for stream in _streams[device]:
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            torch.mm(some, some)
        here.wait_stream(stream)
