"""CUDA source compiled at run time with the library that torch's own wheels bring: no compiler is needed."""

import ctypes
import functools
from collections.abc import Mapping
from pathlib import Path

import torch

SHARED_LIMIT = 227 * 1024  # bytes of shared memory that one block may have on the GPUs this is for
_MAX_DYNAMIC_SHARED = 8  # a number of the driver's interface


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


@functools.cache
def _compiled(source: str, name: str, defines: tuple[tuple[str, int], ...], device: int) -> ctypes.c_void_p:
    """The kernel `name` of the file beside this one, for the given device, ready to run."""
    nvrtc, program = _compiler(), ctypes.c_void_p()
    text = (Path(__file__).parent / source).read_bytes()
    major, minor = torch.cuda.get_device_capability(device)
    words = [f"--gpu-architecture=sm_{major}{minor}", *(f"-D{key}={value}" for key, value in defines)]
    options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None), "reading the source")
    try:
        if nvrtc.nvrtcCompileProgram(program, len(words), options):
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise UnavailableError(f"compiling {source} failed: {log.value.decode(errors='replace')}")
        size = ctypes.c_size_t()
        _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "compiling")
        binary = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetCUBIN(program, binary), "compiling")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    driver, module, kernel = _driver(), ctypes.c_void_p(), ctypes.c_void_p()
    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # makes sure that the device's context is there and current
        _check(driver.cuModuleLoadData(ctypes.byref(module), binary), "loading a kernel")
        _check(driver.cuModuleGetFunction(ctypes.byref(kernel), module, name.encode()), f"finding {name}")
        _check(driver.cuFuncSetAttribute(kernel, _MAX_DYNAMIC_SHARED, SHARED_LIMIT), "asking for shared memory")
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
    kernel = _compiled(source, name, tuple(sorted(defines.items())), number)
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(argument), ctypes.c_void_p))
    stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
    sizes = (blocks, 1, 1, threads, 1, 1, shared)
    with torch.cuda.device(device):
        if together:
            code = _driver().cuLaunchCooperativeKernel(kernel, *sizes, stream, arguments)
        else:
            code = _driver().cuLaunchKernel(kernel, *sizes, stream, arguments, None)
    _check(code, f"starting {name}")
