"""Seeds, devices, precision and CPU threads."""

import contextlib
import functools
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from memgrow.errors import SettingsError


def derive(seed: int, *path: object) -> int:
    """A seed for one purpose. Distinct paths give unrelated seeds; the same path always gives the same."""
    digest = hashlib.sha256("/".join(map(str, (seed, *path))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # torch takes 63 bits


@contextmanager
def seeded(seed: int, *path: object, device: torch.device) -> Iterator[None]:
    """Run with torch's generators set for one purpose; the caller's generators are put back afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        set_seed(derive(seed, *path))
        yield


def set_seed(seed: int) -> None:
    # Where there is no GPU, torch.manual_seed would still note down for one, with a whole stack, what it was asked.
    (torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed)(seed)


THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
SMALL_STEP = 1 << 25  # multiplications: in a smaller step, a second thread waits longer than it helps
NO_MEMORY = ("DefaultCPUAllocator", "Storage size calculation overflowed", "out of memory")  # in torch's words


def find_device(name: str) -> torch.device:
    """The device of that name; "auto" is the GPU if there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise SettingsError(f"there is no device {name!r}; there are auto, cpu and cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingsError("torch finds no CUDA device on this machine: use the device cpu or auto")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch has several."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in str(error) for words in NO_MEMORY)


@functools.cache
def multiplies_bfloat16(kind: str) -> bool:
    """Whether a device has native bfloat16 products; without, they are slow."""
    if kind != "cpu":
        return kind == "cuda"
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # torch has no public ones
    return any(getattr(torch.cpu, check, lambda: False)() for check in checks)


def allow_tf32(device: torch.device) -> None:
    """Allow TF32 products on a GPU, for the whole process."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")


_usual = torch.get_num_threads()
_said = False


def set_usual_threads(count: int) -> None:
    """Set the number of threads of large models; small ones use one."""
    global _usual
    _usual = count
    torch.set_num_threads(count)


def set_threads(count: int) -> None:
    """Set the number of threads of all models."""
    global _said
    _said = True
    torch.set_num_threads(count)


def suited_threads(device: torch.device, multiplications: int, asked: int | None = None) -> int:
    """The number of threads for steps of so many multiplications.

    It is `asked`, or what OMP_NUM_THREADS or torch.set_num_threads has set, or one for a small model, whose threads
    would mostly wait for each other.
    """
    check_threads(asked)
    now = torch.get_num_threads()
    said = _said or now != _usual or any(os.environ.get(name) for name in THREAD_VARIABLES)
    if asked is not None or said or device.type != "cpu":
        return asked or now
    return 1 if multiplications < SMALL_STEP else now


def check_threads(count: int | None) -> None:
    if count is not None and count < 1:
        raise SettingsError(f"threads must be at least 1, not {count}")


_own = threading.local()  # `depth`: the `using_threads` blocks that this thread is in
_all = {"inside": 0, "outside": 0}  # the blocks of all threads, and the count outside of them
_changing = threading.Lock()


@contextlib.contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """Within, torch uses so many threads; None: as many as before.

    A thread that is new to torch sees the count that another thread has set, and must not restore that as its own.
    """
    check_threads(count)
    depth = getattr(_own, "depth", 0)
    with _changing:
        before = torch.get_num_threads() if depth or not _all["inside"] else _all["outside"]
        if not _all["inside"]:
            _all["outside"] = before
        _all["inside"] += 1
        _own.depth = depth + 1
        torch.set_num_threads(count or before)
    try:
        yield
    finally:
        with _changing:
            _all["inside"] -= 1
            _own.depth = depth
            torch.set_num_threads(before)
