"""Products of a GPU that do not need each other: side by side where a CUDA graph is recorded, as few fill it alone.

Elsewhere Python takes longer to ask for them than the GPU to make them, and they come one after another.
"""

from collections.abc import Callable
from typing import Any

import torch

MOST = 4
_streams: dict[torch.device, list[torch.cuda.Stream]] = {}


def side_by_side(device: torch.device, *works: Callable[[], Any]) -> list[Any]:
    """What each of them gives. Only what was there before may be changed by one and read by another."""
    assert len(works) <= MOST
    if device.type != "cuda":
        return [work() for work in works]
    if not torch.cuda.is_current_stream_capturing():
        if device not in _streams:
            _streams[device] = _prepared(device)
        return [work() for work in works]
    here = torch.cuda.current_stream(device)
    others = _streams.get(device, [])[: len(works) - 1]  # none, where nothing has been run before the recording
    for stream in others:
        stream.wait_stream(here)
    found = []
    for number, work in enumerate(works):
        with torch.cuda.stream(others[number - 1] if 0 < number <= len(others) else here):
            found.append(work())
    for stream in others:
        here.wait_stream(stream)
    return found


def _prepared(device: torch.device) -> list[torch.cuda.Stream]:
    """Streams that have multiplied once: what products need for a stream must not be taken from a graph's memory."""
    streams = [torch.cuda.Stream(device) for _ in range(MOST - 1)]  # type: ignore[no-untyped-call]
    some = torch.ones(64, 64, device=device)
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            torch.mm(some, some)
        torch.cuda.current_stream(device).wait_stream(stream)
    return streams
