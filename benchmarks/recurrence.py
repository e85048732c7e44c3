"""Every backend of the recurrence side by side in one run: forward and backward of one layer, all gradients included.

    python benchmarks/recurrence.py --device cuda --out results/recurrence-h200.json
    python benchmarks/recurrence.py --device cpu --out results/recurrence-cpu.json

Times are the best of several rounds; ratios come first, since machines are noisy. On a GPU each is timed as a user
would call it and, where it can be captured, as a CUDA graph, which leaves out the time that Python takes.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from memgrow.nn import LAYERS, MemoryRecurrent
from recorded_command import recorded_command

# name: cell, input, hidden, slots, batch, steps, both directions
SIZES = {
    "paper": ("lstm", 300, 300, 500, 64, 30, True),
    "paper, five domains": ("lstm", 300, 300, 2500, 64, 30, True),
    "no memory": ("lstm", 300, 300, 0, 64, 30, True),
    "dialogue": ("gru", 1024, 1024, 1024, 64, 20, False),
}
# growth curves around the paper's size: what varies, and how
CURVES = {
    "slots": (3, [0, 125, 250, 500, 1000, 2000, 4000]),
    "hidden": (2, [75, 150, 300, 512]),
    "batch": (4, [8, 32, 64, 128]),
    "steps": (5, [8, 15, 30, 60]),
}
TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}


def best_time(run: Callable[[], object], device: str, rounds: int, repeats: int) -> float:
    """Milliseconds of one run."""
    for _ in range(2):
        run()
    times = []
    for _ in range(rounds):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(repeats):
            run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - began) / repeats)
    return 1000 * min(times)


def step(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    inputs = [x, *(p for p in layer.parameters() if p.numel())]

    def run() -> object:
        output = layer(x)[0]
        return torch.autograd.grad(output, inputs, torch.ones_like(output), allow_unused=True)

    return run


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


def measure(size: tuple[Any, ...], device: str, variants: list[str], rounds: int) -> dict[str, float]:
    cell, inputs, hidden, slots, batch, steps, both = size
    x = torch.randn(steps, batch, inputs, device=device, requires_grad=True)
    times = {}
    for variant in variants:
        layer: nn.Module | MemoryRecurrent
        if variant == "torch, no memory":
            layer = TORCH[cell](inputs, hidden, bidirectional=both, device=device)
        else:
            name = variant.removesuffix(", graph")
            layer = LAYERS[cell](inputs, hidden, slots=slots, bidirectional=both, device=device, backend=name)
        run = step(layer, x)
        quick = variant != "naive" and device == "cuda"
        times[variant] = best_time(
            captured(run) if variant.endswith("graph") else run, device, rounds, 20 if quick else 2
        )
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--curves", action="store_true", help="also time against slots, hidden size, batch and length")
    parser.add_argument(
        "--tf32", action="store_true", help="let the GPU round factors to TF32, as cuDNN does by default"
    )
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    gpu = options.device == "cuda"
    variants = ["naive", "stepped", "torch, no memory", *(["cuda", "cuda, graph"] if gpu else [])]
    found: dict[str, Any] = {
        "command": recorded_command(__file__),
        "machine": torch.cuda.get_device_name() if gpu else f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "milliseconds": {},
        "ratios": {},
    }
    fast = "cuda, graph" if gpu else "stepped"
    for name, size in SIZES.items():
        times = measure(size, options.device, variants, options.rounds)
        found["ratios"][name] = {variant: round(times[variant] / times[fast], 2) for variant in variants}
        found["milliseconds"][name] = {variant: round(value, 3) for variant, value in times.items()}
        shown = ", ".join(f"{variant} {ratio:.1f}" for variant, ratio in found["ratios"][name].items())
        print(f"{name}: times of {fast} ({times[fast]:.2f} ms): {shown}", flush=True)
    if options.curves:
        found["curves"] = {}
        for name, (place, values) in CURVES.items():
            curve = {}
            for value in values:
                size = list(SIZES["paper"])
                size[place] = value
                curve[value] = {w: round(t, 3) for w, t in measure(tuple(size), options.device, [fast], 3).items()}
            found["curves"][name] = curve
            print(f"{name}: {curve}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
