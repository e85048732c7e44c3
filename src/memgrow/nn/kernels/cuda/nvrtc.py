"""CUDA source compiled at run time with the library that torch's own wheels bring: no compiler is needed.

A kernel takes a second or two, once on a machine. What is known to be needed is compiled in the background, several at
the same time; whoever launches a kernel does not wait for others.
"""

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path

import torch

from memgrow.nn.kernels.cuda import kept

SHARED_LIMIT = 227 * 1024  # bytes of shared memory that one block may have on the GPUs this is for
Defines = tuple[tuple[str, int], ...]
_MAX_DYNAMIC_SHARED, _LARGE_CLUSTERS, _CLUSTER_DIMENSION = 8, 14, 4  # numbers of the driver's interface
_HERE = Path(__file__).parent


class UnavailableError(RuntimeError):
    """Kernels cannot be compiled here; the message says why."""


@functools.cache
def _compiler() -> ctypes.CDLL:
    major = (torch.version.cuda or "").split(".")[0]
    folders = [Path(torch.__file__).parents[1] / "nvidia"]
    found = [str(path) for folder in folders for path in folder.glob(f"*/lib/libnvrtc.so.{major}")]
    for name in (f"libnvrtc.so.{major}", "libnvrtc.so", *found):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise UnavailableError("the library NVRTC, which torch's CUDA wheels bring, is not there")


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int, doing: str) -> None:
    if code:
        raise UnavailableError(f"{doing} failed with code {code}")


def prepare(source: str, defines: Mapping[str, int], device: torch.device) -> None:
    """Begin to compile a source with these defines."""
    _compiling((source, _sorted(defines), _architecture(device.index)))


def _sorted(defines: Mapping[str, int]) -> Defines:
    return tuple(sorted(defines.items()))


@functools.cache
def _architecture(device: int | None) -> str:
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


Program = tuple[str, Defines, str]  # source, defines, architecture
_begun: dict[Program, "Future[bytes]"] = {}
_beginning = threading.Lock()
_at_once = threading.Semaphore(min(8, os.cpu_count() or 1))


def _compiling(program: Program) -> "Future[bytes]":
    with _beginning:
        if program not in _begun:
            _begun[program] = future = Future[bytes]()
            # As a daemon, so that it is for `_end` to say what is waited for when the process ends.
            threading.Thread(target=_in_turn, args=(future, program), name="compiling", daemon=True).start()
        return _begun[program]


@atexit.register
def _end() -> None:
    """Wait for what is being compiled, whose library must not be torn down; drop what has not begun."""
    with _beginning:
        begun = list(_begun.values())
    wait([future for future in begun if not future.cancel()])


def _in_turn(future: "Future[bytes]", program: Program) -> None:
    with _at_once:
        if future.set_running_or_notify_cancel():
            _finish(future, program)


def _finish(future: "Future[bytes]", program: Program) -> None:
    try:
        future.set_result(_compile(*program))
    except BaseException as error:  # whoever waits for it gets the error
        future.set_exception(error)


def _compiled(program: Program) -> bytes:
    """Machine code that is needed now: where it still waits for its turn, it is compiled here."""
    while True:
        future = _compiling(program)
        if future.cancel():
            mine = Future[bytes]()
            mine.set_running_or_notify_cancel()  # from here on nobody takes it over
            with _beginning:
                if _begun[program] is not future:
                    continue  # another thread was faster
                _begun[program] = mine
            _finish(mine, program)
            return mine.result()
        with contextlib.suppress(CancelledError):
            return future.result()


def _compile(source: str, defines: Defines, architecture: str) -> bytes:
    """The file `source` beside this one as machine code. It takes a second, so it is kept for the next time."""
    text = (_HERE / source).read_bytes()
    words = [f"--gpu-architecture={architecture}", *(f"-D{key}={value}" for key, value in defines)]
    name = hashlib.sha256(text + b"".join(_headers().values()) + repr((words, torch.version.cuda)).encode()).hexdigest()
    if (found := kept.find(f"{name}.cubin")) is not None:
        return found
    binary = _compile_now(text, words, source)
    kept.keep(f"{name}.cubin", binary)
    return binary


@functools.cache
def _headers() -> dict[str, bytes]:
    """The headers that a source may include, by name."""
    return {path.name: path.read_bytes() for path in sorted(_HERE.glob("*.cuh"))}


def _compile_now(text: bytes, words: list[str], source: str) -> bytes:
    nvrtc, program, size = _compiler(), ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    strings = ctypes.c_char_p * len(_headers())
    headers, names = strings(*_headers().values()), strings(*(name.encode() for name in _headers()))
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), len(headers), headers, names)
    _check(created, "reading the source")
    try:
        if nvrtc.nvrtcCompileProgram(program, len(words), options):
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise UnavailableError(f"compiling {source} failed: {log.value.decode(errors='replace')}")
        _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "compiling")
        binary = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetCUBIN(program, binary), "compiling")
        return binary.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


@functools.cache
def _module(source: str, defines: Defines, device: int) -> ctypes.c_void_p:
    binary, module = _compiled((source, defines, _architecture(device))), ctypes.c_void_p()
    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # makes sure that the device's context is there and current
        _check(_driver().cuModuleLoadData(ctypes.byref(module), binary), "loading kernels")
    return module


@functools.cache
def _kernel(source: str, name: str, defines: Defines, device: int) -> ctypes.c_void_p:
    kernel = ctypes.c_void_p()
    module = _module(source, defines, device)
    _check(_driver().cuModuleGetFunction(ctypes.byref(kernel), module, name.encode()), f"finding {name}")
    _check(_driver().cuFuncSetAttribute(kernel, _MAX_DYNAMIC_SHARED, SHARED_LIMIT), "asking for shared memory")
    _check(_driver().cuFuncSetAttribute(kernel, _LARGE_CLUSTERS, 1), "asking for clusters")
    return kernel


def launch(
    source: str,
    name: str,
    defines: Mapping[str, int],
    argument: ctypes.Structure,
    blocks: int,
    threads: int,
    shared: int,
    device: torch.device,
    together: bool,
) -> None:
    """Run a kernel with one argument on torch's current stream; `together`: all of its blocks at the same time."""
    number = device.index if device.index is not None else torch.cuda.current_device()
    kernel = _kernel(source, name, _sorted(defines), number)
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(argument), ctypes.c_void_p))
    stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
    sizes = (blocks, 1, 1, threads, 1, 1, shared)
    with torch.cuda.device(device):
        if together:
            code = _driver().cuLaunchCooperativeKernel(kernel, *sizes, stream, arguments)
        else:
            code = _driver().cuLaunchKernel(kernel, *sizes, stream, arguments, None)
    _check(code, f"starting {name}")


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("gap", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


def most_clusters(
    source: str, name: str, defines: Mapping[str, int], size: int, threads: int, shared: int, device: torch.device
) -> int:
    """How many clusters of `size` blocks the GPU can run at the same time."""
    number = device.index if device.index is not None else torch.cuda.current_device()
    kernel = _kernel(source, name, _sorted(defines), number)
    attribute = _Attribute(id=_CLUSTER_DIMENSION, value=(ctypes.c_uint * 16)(size, 1, 1))
    config = _Config(
        grid=(size, 1, 1), block=(threads, 1, 1), shared=shared, attributes=ctypes.pointer(attribute), count=1
    )
    most = ctypes.c_int()
    with torch.cuda.device(device):
        code = _driver().cuOccupancyMaxActiveClusters(ctypes.byref(most), kernel, ctypes.byref(config))
    return 0 if code else most.value
