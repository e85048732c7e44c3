"""A GPU takes seconds before its first product: they pass while the words of a lesson are read."""

import contextlib
import functools
import threading

import torch


def wake(device: torch.device) -> None:
    """Begin to get a device ready; who uses it waits for that, and for nothing else."""
    if device.type == "cuda":
        # "cuda" is the current one, which each thread has for itself: it is the first unless somebody has chosen.
        chosen = torch.cuda.current_device() if torch.cuda.is_initialized() else 0  # type: ignore[no-untyped-call]
        _wake(chosen if device.index is None else device.index)


@functools.cache  # once for each
def _wake(number: int) -> None:
    threading.Thread(target=_stir, args=(torch.device("cuda", number),), name="waking").start()


def _stir(device: torch.device) -> None:
    """What would be loaded for the first product of all, and for the first optimiser."""
    with contextlib.suppress(RuntimeError):  # who uses the device next meets it as well, and can say more
        some = torch.ones(8, 8, device=device)
        torch.mm(some, some)
        torch.optim.Adam([some.requires_grad_()])
