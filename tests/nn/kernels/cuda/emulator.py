"""Compiles a kernel's source with the C++ compiler that is there, and starts it in place of NVRTC and the driver."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memgrow.nn.kernels.cuda import nvrtc

HERE, SOURCES, MACHINE = Path(__file__).parent, Path(nvrtc.__file__).parent, "machine.cuh"
KERNELS = {  # source: kernels and their arguments
    "cluster_forward.cu": {"forward": "Forward"},
    "cluster_backward.cu": {"backward": "Backward"},
    "cluster_packing.cu": {"pack": "Packing", "largest": "Gradients"},
    "layout.cu": {"spread": "Spreading", "collect": "Collecting"},
}
WALKS = ("forward", "backward")
FEW = 2  # blocks, where any number does
late = 0  # of a hundred messages, so many take another round, and another
START = """
extern "C" void start_{name}(const {kind} *a, int blocks, int threads, int shared) {{
    machine::run(blocks, threads, shared, {size}, {team}, [=] {{ {name}(*a); }});
}}
"""


def compiler() -> str | None:
    return shutil.which("g++")


def launch(
    source: str,
    name: str,
    defines: Mapping[str, int],
    argument: ctypes.Structure,
    blocks: int,
    threads: int,
    shared: int,
    device: Any,
    together: bool,
) -> None:
    """As `nvrtc.launch`; all pointers are the CPU's."""
    library = _library(source, tuple(sorted(defines.items())))
    library.be_late(late)
    getattr(library, f"start_{name}")(ctypes.byref(argument), blocks if name in WALKS else FEW, threads, shared)


def prepare(source: str, defines: Mapping[str, int], device: Any) -> None:
    """As `nvrtc.prepare`: what is needed together is compiled at the same time."""
    _compiling(source, tuple(sorted(defines.items())))


@functools.cache
def _library(source: str, defines: tuple[tuple[str, int], ...]) -> ctypes.CDLL:
    compiling, made = _compiling(source, defines)
    assert compiling.wait() == 0, source
    return ctypes.CDLL(str(made))


@functools.cache
def _compiling(source: str, defines: tuple[tuple[str, int], ...]) -> tuple["subprocess.Popen[bytes]", Path]:
    text = (SOURCES / source).read_text(encoding="utf-8")
    text = text.replace("extern __shared__ uint4 shared[];", "uint4 *shared = (uint4 *)machine::now->shared;")
    size, team = (dict(defines).get(name, 1) for name in ("CLUSTER", "TEAM"))
    starts = "".join(
        START.format(name=name, kind=kind, size=size if name in WALKS else 1, team=team if name in WALKS else 1)
        for name, kind in KERNELS[source].items()
    )
    folder = Path(tempfile.mkdtemp(dir=_room().name))
    for header in SOURCES.glob("*.cuh"):
        if header.name != MACHINE:  # in the place of which stands the one here
            shutil.copy(header, folder)
    (folder / "kernel.cpp").write_text(f'#include "{MACHINE}"\n{text}\n{starts}', encoding="utf-8")
    made = folder / "kernel.so"
    words = [
        "-std=c++20",
        "-O1",
        "-w",
        "-shared",
        "-fPIC",
        f"-I{HERE}",
        *(f"-D{key}={value}" for key, value in defines),
    ]
    return subprocess.Popen([str(compiler()), *words, str(folder / "kernel.cpp"), "-o", str(made)]), made


@functools.cache
def _room() -> "tempfile.TemporaryDirectory[str]":
    """Gone with the process: code that is to be run is not left where others could put theirs."""
    return tempfile.TemporaryDirectory(prefix="memgrow-emulated-")
