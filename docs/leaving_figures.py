"""The figures of docs/leaving.md on speed, taken from results/; docs/figures.py puts them there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from result_commands import as_typed

from research.common.tables import Table
from research.encoders.report import NO_FIGURES

ROOT = Path(__file__).resolve().parents[1]
BATCHES = ("1", "32")

Results = dict[str, Any]


def export(_: Results) -> str:
    """Milliseconds of both, how many times as fast onnxruntime is, and how far they are apart."""
    if not (path := ROOT / "results/export.json").is_file():
        return NO_FIGURES
    found: Results = json.loads(path.read_text(encoding="utf-8"))
    models = found["models"]
    rows = [
        [name, size, f"{one['torch_ms']:.1f}", f"{one['onnxruntime_ms']:.1f}", f"{one['times_as_fast']:g}"]
        for name, model in models.items()
        for size, one in ((size, model[f"batches of {size}"]) for size in BATCHES)
    ]
    header = ("model", "texts at once", "torch, ms", "onnxruntime, ms", "times as fast")
    texts, same = (sum(one[name] for one in models.values()) for name in ("texts", "same_labels"))
    took = [one["export_seconds"] for one in models.values()]
    apart, machine = max(one["largest_difference"] for one in models.values()), found["machine"]
    sentence = (
        f"Of {texts:,} texts in all, {same:,} got the same label; no probability was further apart than {apart:.0e}.\n"
        f"Writing took {min(took):g} to {max(took):g} seconds a model.\n"
        f"Median times; texts of one to six sentences; {machine['threads']} threads, float32, the tokens not counted;\n"
        "torch with one thread where that is faster; "
        f"torch {found['torch'].partition('+')[0]}, onnxruntime {found['onnxruntime']}.\n"
        f"From `{as_typed(found)}`."
    )
    return f"{Table(None, header, rows).to_markdown()}\n\n{sentence}"


EXPORT: dict[str, Callable[[Results], str]] = {"export": export}
