"""Compiles a kernel's source with the C++ compiler that is there, and starts it in place of NVRTC and the driver."""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
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
PASSES = ("forward", "backward")
FEW = 2  # blocks, where any number does
OPTIONS = ("-std=c++20", "-O1", "-w", "-fPIC")
KEPT_DAYS = 7  # for which what was compiled with other headers is kept
late = 0  # of a hundred messages, this many take another round, and another
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
    getattr(library, f"start_{name}")(ctypes.byref(argument), blocks if name in PASSES else FEW, threads, shared)


def prepare(source: str, defines: Mapping[str, int], device: Any) -> None:
    """As `nvrtc.prepare`: what is needed together is compiled at the same time."""
    _compiling(source, tuple(sorted(defines.items())))


@functools.cache
def _library(source: str, defines: tuple[tuple[str, int], ...]) -> ctypes.CDLL:
    return ctypes.CDLL(str(_compiling(source, defines).result()))


@functools.cache
def _compiling(source: str, defines: tuple[tuple[str, int], ...]) -> "Future[Path]":
    text = (SOURCES / source).read_text(encoding="utf-8")
    text = text.replace("extern __shared__ uint4 shared[];", "uint4 *shared = (uint4 *)machine::now->shared;")
    size, team = (dict(defines).get(name, 1) for name in ("CLUSTER", "TEAM"))
    starts = "".join(
        START.format(name=name, kind=kind, size=size if name in PASSES else 1, team=team if name in PASSES else 1)
        for name, kind in KERNELS[source].items()
    )
    words = ["-shared", *(f"-D{key}={value}" for key, value in defines)]
    return _workers().submit(_compiled, f'#include "{MACHINE}"\n{text}\n{starts}', words)


@functools.cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4)


def _compiled(text: str, words: list[str]) -> Path:
    """The library of a source, compiled once on this machine, whichever test or process asks for it first."""
    folder = _headers()
    made = folder / f"{hashlib.sha256(repr((text, words)).encode()).hexdigest()}.so"
    with _locked(made.with_suffix(".lock")):
        if not made.exists():
            new = made.with_suffix(".new")
            subprocess.run(
                [str(compiler()), *OPTIONS, *words, f"-I{folder}", "-x", "c++", "-", "-o", str(new)],
                input=text.encode(),
                check=True,
            )
            new.replace(made)
    return made


@functools.cache
def _headers() -> Path:
    """A folder with all headers as they are now, the emulated machine among them, and it compiled beforehand."""
    headers = {path.name: path.read_bytes() for path in SOURCES.glob("*.cuh")}
    headers[MACHINE] = (HERE / MACHINE).read_bytes()
    version = subprocess.run([str(compiler()), "--version"], capture_output=True, check=True).stdout
    name = hashlib.sha256(repr((sorted(headers.items()), OPTIONS, version)).encode()).hexdigest()
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memgrow" / "emulated"
    root.mkdir(parents=True, exist_ok=True, mode=0o700)  # code that is to be run is not left where others put theirs
    with _locked(root / ".lock"):
        for old in root.iterdir():
            if old.is_dir() and old.name != name and time.time() - old.stat().st_mtime > KEPT_DAYS * 86400:
                shutil.rmtree(old)
        folder, ready = root / name, root / name / f"{MACHINE}.gch"
        folder.mkdir(exist_ok=True)
        if not ready.exists():
            for header, content in headers.items():
                (folder / header).write_bytes(content)
            words = ["-x", "c++-header", str(folder / MACHINE), "-o", str(folder / "new")]
            subprocess.run([str(compiler()), *OPTIONS, *words], check=True)
            (folder / "new").replace(ready)
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
