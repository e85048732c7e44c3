"""Compiles a kernel's source with the C++ compiler that is there, and starts it in place of NVRTC and the driver."""

import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memgrow.nn.kernels import nvrtc

HERE = Path(__file__).parent
KERNELS = {  # source: kernels and their arguments
    "cluster.cu": {"forward": "Forward", "backward": "Backward", "pack": "Packing", "largest": "Gradients"},
    "layout.cu": {"spread": "Spreading", "collect": "Collecting"},
}
WALKS = ("forward", "backward")
FEW = 2  # blocks, where any number does
START = """
extern "C" void start_{name}(const {kind} *a, int blocks, int threads, int shared) {{
    machine::run(blocks, threads, shared, {size}, [=] {{ {name}(*a); }});
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
    start = getattr(_library(source, tuple(sorted(defines.items()))), f"start_{name}")
    start(ctypes.byref(argument), blocks if name in WALKS else FEW, threads, shared)


@functools.cache
def _library(source: str, defines: tuple[tuple[str, int], ...]) -> ctypes.CDLL:
    text = (Path(nvrtc.__file__).parent / source).read_text(encoding="utf-8")
    text = text.replace("extern __shared__ uint4 shared[];", "uint4 *shared = (uint4 *)machine::now->shared;")
    size = dict(defines).get("CLUSTER", 1)
    starts = "".join(
        START.format(name=name, kind=kind, size=size if name in WALKS else 1) for name, kind in KERNELS[source].items()
    )
    whole = f'#include "machine.cuh"\n{text}\n{starts}'
    words = [
        "-std=c++20",
        "-O1",
        "-w",
        "-shared",
        "-fPIC",
        f"-I{HERE}",
        *(f"-D{key}={value}" for key, value in defines),
    ]
    known = hashlib.sha256((whole + (HERE / "machine.cuh").read_text() + repr(words)).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / "memgrow-emulated"
    folder.mkdir(exist_ok=True)
    made = folder / f"{known}.so"
    if not made.exists():
        (folder / f"{known}.cpp").write_text(whole, encoding="utf-8")
        beside = made.with_suffix(".making")
        subprocess.run([str(compiler()), *words, str(folder / f"{known}.cpp"), "-o", str(beside)], check=True)
        beside.replace(made)
    return ctypes.CDLL(str(made))
