"""The README's chart of speed, from the files in results/.

    python benchmarks/chart.py

One layer on a GPU, the whole classifier on a CPU, and a whole adaptation on a GPU where that has been measured. The
picture carries a checksum of what it shows, so that a test can tell when it is out of date.
"""

import argparse
import hashlib
import json
from collections.abc import Callable, Mapping
from math import floor, log10
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

ROOT = Path(__file__).resolve().parents[1]
LAYER, CLASSIFIER, ADAPTATION = "recurrence-h200-tf32.json", "training-cpu.json", "adaptation-h200.json"
SIZE = "paper"  # of the layer

OURS, OTHERS, INK = "#1f6f8b", "#b9c4cc", "#333333"
SHADES = ("#c9dfe6", "#5fa3ba", "#1f6f8b", "#123f50")
DPI, HEIGHT, WIDTH = 170, 3.3, 4.1  # dots in an inch, inches of the picture and of each panel

VARIANTS = {  # what the benchmarks call them: what the chart does
    "naive": "plain loop",
    "stepped": "memgrow, no kernels",
    "torch, no memory": "torch's LSTM, no memory",
    "cuda": "memgrow",
    "cuda, graph": "memgrow, CUDA graph",
    "by hand": "by hand",
    "plain loop, memgrow's batches": "plain loop,\nmemgrow's batches",
    "memgrow": "memgrow",
}
MODES = {"alone, plain loop": "one, plain loop", "alone": "one", "side by side": "{} side by side"}
PARTS = {  # what a part's name holds: the share of the bar that it belongs to
    "imports": "start, data, words",
    "reading": "start, data, words",
    "words, vectors": "start, data, words",
    "fiction: training": "fiction",
    "government: training": "government",
    "testing": "tests",
}


def layer(axes: Axes, found: Mapping[str, Any]) -> None:
    """Milliseconds of each variant, on an axis of powers of ten: they lie that far apart."""
    times = found["milliseconds"][SIZE]
    names = [VARIANTS.get(variant, variant) for variant in times]
    bars = axes.barh(names, list(times.values()), color=[_colour(name) for name in names])
    axes.bar_label(bars, [f"{time:.1f}" for time in times.values()], padding=3, color=INK)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x", color=OTHERS, alpha=0.5)
    axes.set_axisbelow(True)
    axes.set_xlim(10 ** floor(log10(min(times.values()))), 3 * max(times.values()))
    axes.set_title("One layer, forward and back, H200:\nmilliseconds, on an axis of powers of ten")


def classifier(axes: Axes, found: Mapping[str, Any]) -> None:
    """Pairs a second, training above prediction."""
    place, places, names = 0.0, [], []
    for part, rates in found["pairs_per_second"].items():
        axes.text(0, place - 0.8, part, color=INK, fontstyle="italic", va="center")
        for variant, rate in rates.items():
            name = VARIANTS.get(variant, variant)
            bars = axes.barh(place, rate, color=_colour(name))
            axes.bar_label(bars, [f"{rate:.0f}"], padding=3, color=INK)
            places.append(place)
            names.append(name)
            place += 1
        place += 1
    axes.set_yticks(places, names)
    axes.set_ylim(places[-1] + 0.6, -1.2)
    axes.set_xlim(0, 1.2 * max(rate for rates in found["pairs_per_second"].values() for rate in rates.values()))
    axes.set_title("The whole classifier, two CPU cores:\npairs a second")


def adaptation(axes: Axes, found: Mapping[str, Any]) -> None:
    """Seconds of a whole two-domain adaptation, by where they went."""
    modes = {mode: found["modes"][mode] for mode in MODES if mode in found["modes"]}
    names = [MODES[mode].format(len(one["learners"])) for mode, one in modes.items()]
    reached = [0.0] * len(modes)
    for part, shade in zip(dict.fromkeys(PARTS.values()), SHADES, strict=True):
        seconds = [seconds_of(one["parts"], part) for one in modes.values()]
        axes.barh(names, seconds, left=reached, color=shade, label=part, height=0.55)
        reached = [a + b for a, b in zip(reached, seconds, strict=True)]
    for name, end, one in zip(names, reached, modes.values(), strict=True):
        axes.text(end, name, f" {one['seconds']:.0f}", color=INK, va="center")
    axes.set_xlim(0, 1.15 * max(reached))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False, fontsize="small")
    axes.set_title("Two domains from disk to test, H200:\nseconds")


def seconds_of(parts: Mapping[str, float], share: str) -> float:
    mine = [mark for mark, one in PARTS.items() if one == share]
    return sum(seconds for name, seconds in parts.items() if any(mark in name for mark in mine))


def _colour(name: str) -> str:
    return OURS if name.startswith("memgrow") else OTHERS


PANELS: dict[str, Callable[[Axes, Mapping[str, Any]], None]] = {
    LAYER: layer,
    CLASSIFIER: classifier,
    ADAPTATION: adaptation,
}


def checksum(results: Path) -> str:
    """The checksum of the files that the chart is made from."""
    there = [results / name for name in PANELS if (results / name).exists()]
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in there)).hexdigest()


def draw(results: Path, picture: Path) -> None:
    """A panel for each file that is there."""
    found = {name: json.loads((results / name).read_bytes()) for name in PANELS if (results / name).exists()}
    figure = Figure(figsize=(WIDTH * len(found), HEIGHT), layout="constrained")
    for axes, (name, measured) in zip(figure.subplots(1, len(found), squeeze=False).flat, found.items(), strict=True):
        PANELS[name](axes, measured)
        if not axes.yaxis_inverted():
            axes.invert_yaxis()
        axes.set_title(axes.get_title(), fontsize=10, color=INK, pad=8)
        axes.tick_params(labelsize=9, length=0, colors=INK)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(OTHERS)
    figure.savefig(picture, dpi=DPI, metadata={"Description": checksum(results)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/speed.png")
    asked = parser.parse_args()
    draw(asked.results, asked.out)


if __name__ == "__main__":
    main()
