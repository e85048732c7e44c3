"""The figures of docs/large-files.md, taken from results/; docs/figures.py puts them there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from result_commands import as_typed

from research.common.tables import Table

ROOT = Path(__file__).resolve().parents[1]

Results = dict[str, Any]


def memory(_: Results) -> str:
    """Peak memory and time of adapting and predicting, file by file."""
    found, rows = _found(), []
    base = found["runs"][0]  # the smallest file
    for run in found["runs"][1:]:
        rows_told = f"{run['rows']:,}" + (f", {run['limit']:,} of each part learnt" if "limit" in run else "")
        cells = [_size(run["mb"]), rows_told, f"{run['mean_letters']:,}"]
        for command in ("adapt", "predict"):
            cells += _told(run[command], base[command]) if command in run else ["-", "-"]
        rows.append(cells)
    header = ("file", "rows", "letters a text", "adapt, MiB", "adapt, s", "predict, MiB", "predict, s")
    sizes = ", ".join(f"`{name}={value}`" for name, value in found["settings"].items())
    adapt, predict = (base[command]["peak_mib"] for command in ("adapt", "predict"))
    sentence = (
        f"MiB are those beyond what the same command takes for a file of {base['mb']} MB, which is Python, torch and\n"
        f"the model ({adapt} for adapt, {predict} for predict); seconds are of one core.\n"
        f"The model is tiny, so that the data is what is measured:\n{sizes}.\n{_how(found)}"
    )
    return f"{Table(None, header, rows).to_markdown()}\n\n{sentence}"


def _how(found: Results) -> str:
    """By which command the figures came about, or by which ones."""
    typed = as_typed(found)
    if " --" not in typed:  # older results name the script alone, and hold what all of it measures
        typed = f"{typed} --whole --peers VENV/bin/python --out results/big-files.json"
    minutes = f"{found['wall_seconds'] / 60:.0f} minutes, two commands at a time."
    return f"From `{typed}`, in {'several runs' if ' && ' in typed else 'one run'} of\n{minutes}"


def _told(one: Results, base: Results) -> list[str]:
    """Memory and time of a command; one that was stopped says how much of the file it had answered."""
    stopped = f" (first {_size(one['mb'])})" if "mb" in one else ""
    return [f"{one['peak_mib'] - base['peak_mib']:,}", f"{one['seconds']:,.0f}{stopped}"]


def reading(_: Results) -> str:
    """Reading beside others' reading, in one run."""
    found = _found()["reading"]
    rows = [[name, f"{one['mb_per_second']:.0f}", f"{one['beyond_mib']:,}"] for name, one in found["readers"].items()]
    header = ("reader", "MB a second of one core", "peak memory beyond its imports, MiB")
    return f"{Table(None, header, rows).to_markdown()}\n\nJSON lines of {_size(found['mb'])}, in one run."


def _found() -> Results:
    found: Results = json.loads((ROOT / "results/big-files.json").read_text(encoding="utf-8"))
    return found


def _size(megabytes: int) -> str:
    return f"{megabytes / 1000:g} GB" if megabytes >= 1000 else f"{megabytes} MB"


LARGE_FILES: dict[str, Callable[[Results], str]] = {"big-files": memory, "big-files-reading": reading}
