"""The device that a model lives on: which one it is, how exactly it multiplies, its threads, and its warm-up."""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import ClassVar

import torch

from memgrow.errors import SettingsError

SAID = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # variables by which somebody says how many threads there are to be
WORTHWHILE = 1 << 25  # multiplications of a step: with fewer, a second thread saves less than it waits
NO_MEMORY = ("DefaultCPUAllocator", "Storage size calculation overflowed", "out of memory")  # in torch's words


def find_device(name: str) -> torch.device:
    """The device of that name; "auto" is the GPU if there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise SettingsError(f"there is no device {name!r}; there are auto, cpu and cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingsError("torch finds no CUDA device on this machine: use the device cpu or auto")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that something does not fit: torch has more than one way to say so."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in str(error) for words in NO_MEMORY)


@functools.cache
def multiplies_bfloat16(kind: str) -> bool:
    """Whether a device of this kind has instructions of its own for products of bfloat16; without, they are slow."""
    if kind != "cpu":
        return kind == "cuda"
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # torch has no public ones
    return any(getattr(torch.cpu, check, lambda: False)() for check in checks)


def allow_tf32(device: torch.device) -> None:
    """Let a GPU round factors to ten bits, in all of this process: nobody reads the fourth digit of a weight."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")


_usual = torch.get_num_threads()  # as long as nobody has said another number
_said = False


def set_usual_threads(count: int) -> None:
    """Let large models take this many threads from now on; small ones take one all the same."""
    global _usual
    _usual = count
    torch.set_num_threads(count)


def set_threads(count: int) -> None:
    """Let all models take this many threads from now on."""
    global _said
    _said = True
    torch.set_num_threads(count)


def suited_threads(device: torch.device, multiplications: int, asked: int | None = None) -> int:
    """The threads to compute with on a device, where a step has so many multiplications.

    Those that are asked for; else those that OMP_NUM_THREADS, or torch.set_num_threads since memgrow was imported, has
    said; else one for a small model, whose threads would wait for each other most of the time, and for very long where
    another process is busy.
    """
    check_threads(asked)
    now = torch.get_num_threads()
    said = _said or now != _usual or any(os.environ.get(name) for name in SAID)
    if asked is not None or said or device.type != "cpu":
        return asked or now
    return 1 if multiplications < WORTHWHILE else now


def check_threads(count: int | None) -> None:
    if count is not None and count < 1:
        raise SettingsError(f"threads must be at least 1, not {count}")


@contextlib.contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """Within, torch computes with so many threads; None: with as many as before."""
    check_threads(count)
    before = _counts.enter(count)
    try:
        yield
    finally:
        _counts.leave(before)


class _ThreadCounts(threading.local):
    """Who is within `using_threads`: `depth` of this thread, and `inside` and `outside` of all.

    A thread that is new to torch takes over what another has set for a while, and must not put that back as its own.
    """

    depth = 0
    shared: ClassVar[dict[str, int]] = {"inside": 0, "outside": 0}
    changing: ClassVar[threading.Lock] = threading.Lock()

    def enter(self, count: int | None) -> int:
        """Set the count, and tell the one to put back."""
        with self.changing:
            own = self.depth or not self.shared["inside"]
            before = torch.get_num_threads() if own else self.shared["outside"]
            if not self.shared["inside"]:
                self.shared["outside"] = before
            self.shared["inside"] += 1
            self.depth += 1
            torch.set_num_threads(count or before)
        return before

    def leave(self, before: int) -> None:
        with self.changing:
            self.shared["inside"] -= 1
            self.depth -= 1
            torch.set_num_threads(before)


_counts = _ThreadCounts()


def warm_up(device: torch.device) -> None:
    """Begin to get a GPU ready in the background: it takes seconds before its first product."""
    if device.type == "cuda":
        # "cuda" means the current device of the calling thread, which is the first unless somebody has chosen another.
        current = torch.cuda.current_device() if torch.cuda.is_initialized() else 0  # type: ignore[no-untyped-call]
        warm_up_gpu(current if device.index is None else device.index)


@functools.cache
def warm_up_gpu(number: int) -> None:
    """The same for the GPU of that number, once in a process."""
    threading.Thread(target=_load, args=(torch.device("cuda", number),), name="warm-up").start()


def _load(device: torch.device) -> None:
    """Load what the first product and the first optimiser need."""
    with contextlib.suppress(RuntimeError):  # whoever uses the device next meets the error as well, and can say more
        some = torch.ones(8, 8, device=device)
        torch.mm(some, some)
        torch.optim.Adam([some.requires_grad_()])
