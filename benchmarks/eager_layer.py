"""A layer that is called by itself, beside torch's own and beside the same work in a CUDA graph: what Python costs.

    python benchmarks/eager_layer.py --device cuda --out results/eager-layer-h200.json
    python benchmarks/eager_layer.py --device cpu

A bidirectional LSTM, hidden 300, 500 slots, 64 sequences of 30 steps; torch's has no slots. Times are the best of
several rounds, in which the variants take turns. TF32 is allowed on a GPU, as cuDNN allows it itself.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from memgrow.nn import MemoryLSTM
from recorded_command import recorded_command

ITSELF, BEFORE, GRAPH, TORCH = "called by itself", "called by itself, not recorded", "in a graph", "torch, no memory"
Size = dict[str, int]


def make(variant: str, size: Size, device: str) -> nn.Module:
    sizes = size["input"], size["hidden"]
    if variant == TORCH:
        return nn.LSTM(*sizes, bidirectional=True, device=device)
    recorded = variant == ITSELF
    return MemoryLSTM(*sizes, slots=size["slots"], bidirectional=True, device=device, cuda_graphs=recorded)


def forward(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    """An answer, as in prediction."""

    def run() -> object:
        with torch.no_grad():
            return layer(x)

    return run


def both(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    """An answer and the gradients of all that went in, as in training."""
    inputs = [x, *(p for p in layer.parameters() if p.numel())]

    def run() -> object:
        output = layer(x)[0]
        return torch.autograd.grad(output, inputs, torch.ones_like(output))

    return run


PASSES = {"forward": forward, "forward and backward": both}


def captured(run: Callable[[], object]) -> Callable[[], object]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def milliseconds(runs: dict[str, Callable[[], object]], device: str, rounds: int, repeats: int) -> dict[str, Any]:
    """The best and the median time of each, by turns."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(6):  # kernels are compiled, and what repeats is recorded
            run()
    for _ in range(rounds):
        for name, run in runs.items():
            wait()
            began = time.perf_counter()
            for _ in range(repeats):
                run()
            wait()
            times[name].append(1000 * (time.perf_counter() - began) / repeats)
    return {name: {"best": min(own), "median": statistics.median(own)} for name, own in times.items()}


def measure(size: Size, device: str, rounds: int, repeats: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    variants = (ITSELF, BEFORE, GRAPH, TORCH) if device == "cuda" else (ITSELF, TORCH)
    for name, kind in PASSES.items():
        runs = {}
        for variant in variants:
            x = torch.randn(size["steps"], size["batch"], size["input"], device=device, requires_grad=kind is both)
            run = kind(make(variant, size, device), x)
            runs[variant] = captured(run) if variant == GRAPH else run
        found[name] = milliseconds(runs, device, rounds, repeats)
        shown = ", ".join(f"{variant} {one['best']:.2f}" for variant, one in found[name].items())
        print(f"{name}, ms: {shown}", flush=True)
    return found


def check(size: Size, device: str) -> dict[str, Any]:
    """Whether a call that is replayed gives the bits of one that is not."""
    torch.manual_seed(0)
    layer = make(ITSELF, size, device)
    plain = make(BEFORE, size, device)
    plain.load_state_dict(layer.state_dict())
    equal = True
    for _ in range(6):
        x = torch.randn(size["steps"], size["batch"], size["input"], device=device, requires_grad=True)
        results = []
        for one in (layer, plain):
            one.zero_grad()
            output = one(x)[0]
            output.sin().sum().backward()
            results.append([output.detach(), *(p.grad for p in one.parameters() if p.grad is not None)])
        equal = equal and all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert isinstance(layer, MemoryLSTM)
    return {"same bits": equal, "recordings": 0 if layer.recordings is None else len(layer.recordings)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, help="calls of a round; 50 on a GPU, 2 elsewhere")
    parser.add_argument("--slots", type=int, default=500)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=300)
    options = parser.parse_args()
    gpu = options.device == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = gpu
    size = {"input": options.hidden, **{name: getattr(options, name) for name in ("hidden", "slots", "batch", "steps")}}
    times = measure(size, options.device, options.rounds, options.repeats or (50 if gpu else 2))
    ratios = {
        name: {variant: round(one["best"] / own[TORCH]["best"], 3) for variant, one in own.items()}
        for name, own in times.items()
    }
    found = {
        "command": recorded_command(__file__),
        "machine": torch.cuda.get_device_name() if gpu else f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "size": size,
        "milliseconds": {
            name: {variant: {k: round(v, 3) for k, v in one.items()} for variant, one in own.items()}
            for name, own in times.items()
        },
        "times of torch's": ratios,
        "check": check(size, options.device),
    }
    print(json.dumps({name: found[name] for name in ("times of torch's", "check")}, indent=1))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
