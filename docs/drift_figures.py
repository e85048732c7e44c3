"""The figures of docs/drift.md, taken from results/drift.json; docs/figures.py puts them there."""

import json
from collections.abc import Callable, Sequence
from math import comb
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any

from result_commands import as_typed

from research.common.tables import Table

ROOT = Path(__file__).resolve().parents[1]

Results = dict[str, Any]


def alarms(_: Results) -> str:
    """False alarms, and what the model's own vectors would have raised."""
    found, rows = _found(), []
    for name, stream in found["streams"].items():
        rounds = stream["rounds"]
        for kind in rounds[0]["false alarms"]:
            parts = [one["false alarms"][kind] for one in rounds]
            count = sum(part["windows"] for part in parts)
            rows.append([name, f"random features, {kind}", f"{count:,}", _share(_sum(parts, "alarms"), count)])
        own = [one["own vectors"] for one in rounds]
        count = sum(part["windows"] for part in own)
        for when in ("when it has just been learnt", "one domain later"):
            rows.append(
                [name, f"the model's own vectors, first domain, {when}", f"{count:,}", _share(_sum(own, when), count)]
            )
    header = ("stream", "windows of known texts", "windows", "called new")
    sentence = (
        f"Windows of {found['window']} texts, alpha {found['alpha']:g}. Each domain was left out in turn, and a small "
        f"model learnt the\nothers by {found['method']}. Windows were drawn again and again from the same test texts "
        f"({_texts(found, 'demo')} of a domain of the\ndemo, {_texts(found, 'sentiment')} of one of the corpus), so "
        f"that they are not independent.\n{_by_chance(found)}\nFrom `{as_typed(found)}`."
    )
    return f"{Table(None, header, rows).to_markdown()}\n\n{sentence}"


def noticing(_: Results) -> str:
    """How many new texts it takes."""
    found, rows = _found(), []
    for name, stream in found["streams"].items():
        for one in stream["rounds"]:
            cells = [name, one["left out"]]
            for share in one["noticing"].values():
                missed = share["runs"] - share["noticed"]
                cells.append(_spread(share["texts"]) + (f"; {missed} of {share['runs']} unnoticed" if missed else ""))
            rows.append(cells)
    shares = [float(share) for share in found["streams"]["demo"]["rounds"][0]["noticing"]]
    header = ("stream", "new domain", *(f"{share:.0%} new" for share in shares))
    runs = found["streams"]["demo"]["rounds"][0]["noticing"]["1"]["runs"]
    sentence = (
        f"Texts of the new domain until the alarm: median, and in brackets the middle half, of {runs} runs or of those "
        f"that\nnoticed it within 3,000 texts. They begin at a random place in a window of {found['window']}, alone or "
        "among known texts."
    )
    return f"{Table(None, header, rows).to_markdown()}\n\n{sentence}"


def calibration(_: Results) -> str:
    """Calibration errors of the newest domain and of earlier ones."""
    found, rows = _found(), []
    for name, stream in found["streams"].items():
        parts = [part for one in stream["rounds"] for part in one["calibration"]]
        for newest, called in ((True, "newest"), (False, "earlier")):
            some = [part for part in parts if part["newest"] == newest]
            errors = [fmean(part[kind] for part in some) for kind in ("at temperature 1", "calibrated")]
            rows.append([name, called, *(f"{100 * error:.1f}" for error in errors)])
    header = ("stream", "domains", "ECE at temperature 1, %", "ECE calibrated, %")
    costs = " and ".join(
        f"{100 * one['share of adapt for notes']:.1f}% on {name}" for name, one in found["streams"].items()
    )
    sentence = (
        "On test examples, after the last domain; means over the rounds. What is noted at the end of a stage, "
        f"temperature and\nsummary, took {costs} of the time of `adapt`."
    )
    return f"{Table(None, header, rows).to_markdown()}\n\n{sentence}"


def _by_chance(found: Results) -> str:
    """How often the most false alarms of random features, or more, would come of windows that keep to alpha."""
    rounds = [(kind, stream["rounds"]) for stream in found["streams"].values() for kind in ("one domain", "several")]
    parts = [[one["false alarms"][kind] for one in some] for kind, some in rounds]
    count, most = max((_sum(some, "windows"), _sum(some, "alarms")) for some in parts)
    alpha = found["alpha"]
    fewer = sum(comb(count, n) * alpha**n * (1 - alpha) ** (count - n) for n in range(most))
    return (
        f"The most of random features are {most} of {count:,}: where {alpha:.0%} raise an alarm, so many or more come "
        f"by chance in {1 - fewer:.0%}\nof such series of independent windows."
    )


def _found() -> Results:
    found: Results = json.loads((ROOT / "results/drift.json").read_text(encoding="utf-8"))
    return found


def _texts(found: Results, stream: str) -> str:
    counts = found["streams"][stream]["known texts"].values()
    return f"{min(counts):,} to {max(counts):,}"


def _sum(parts: Sequence[Results], name: str) -> int:
    return sum(part[name] for part in parts)


def _share(count: int, of: int) -> str:
    return f"{count:,} ({100 * count / of:.1f}%)"


def _spread(counts: Sequence[int]) -> str:
    if len(counts) < 2:
        return ", ".join(map(str, counts)) or "none"
    low, middle, high = quantiles(counts, n=4)
    return f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"


DRIFT: dict[str, Callable[[Results], str]] = {
    "drift-alarms": alarms,
    "drift-noticing": noticing,
    "drift-calibration": calibration,
}
