"""Figures that stand within sentences of the pages, taken from results/: docs/check.py looks for each sentence.

A sentence that is not found has to be written anew: after new runs, or where somebody has changed a figure by hand.
"""

import json
from collections.abc import Iterator, Mapping
from math import ceil, floor
from pathlib import Path
from statistics import fmean
from typing import Any

from research.common.statistics import paired_over_seeds
from research.common.tables import signed
from research.encoders.figures import ALL_ORDERS

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = (
    *("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen"),
)
TWEETS_FIRST = "2"  # of the orders of the sentiment stream


DEFAULT_RUNS = "results/encoders/adapt-default"  # of the command, with nothing said but encoder, seed and threads


def histories(folder: str, root: Path = ROOT) -> list[Any]:
    """The histories that the command wrote, one for each seed."""
    return [json.loads(path.read_text("utf-8")) for path in sorted((root / folder).glob("seed-*.json"))]


def quoted(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Each page, and what stands somewhere on it, with single blanks between its words."""
    yield from _of_encoders(root)
    steps = _read(root, "encoders/speed/cpu.json")["train"]["rivals"]["Trainer"]["steps"]
    yield "docs/speed.md", f"learns more in the {steps} steps of this run"


def _of_encoders(root: Path) -> Iterator[tuple[str, str]]:
    orders = _read(root, "encoders/sentiment.json")["encoders"]["minilm"]["orders"]
    reviews = _Rows(_read(root, "encoders/reviews.json")["encoders"]["minilm"]["orders"]["1"])
    first, whole, tweets = (_Rows(orders[order]) for order in ("1", ALL_ORDERS, TWEETS_FIRST))
    runs = histories(DEFAULT_RUNS, root)
    usual, forgotten = (fmean(100 * history[name] for history in runs) for name in ("average", "forgetting"))
    words_alone = 100 * _read(root, "sentiment/compare.json")["methods"]["F+V"]["average"]["mean"]  # the default
    higher = NUMBERS[round(usual - words_alone)]
    yield "docs/results.md", f"ends {higher} points higher, at {usual:.1f}% by F+E, the default there"
    three = [f"at {first.percent(name)}%" for name in ("F", "F+A", "F+E")]
    lost = [first.percent(name, "forgetting") for name in ("F", "F+A", "F+E")]
    everything = first.percent("multi-task")
    yield (
        "docs/results.md",
        f"ends {three[0]} on sentiment with {lost[0]} points forgotten, F+A {three[1]} with {lost[1]}, "
        f"F+E {three[2]} with {lost[2]}, and multi-task at {everything}% ({first.seeds('F')} seeds)",
    )
    ends = [whole.percent(name) for name in ("F", "F+A", "F+E")]
    costs = sorted(first.mean(name) - tweets.mean(name) for name in ("F", "F+A", "F+E"))
    yield (
        "docs/results.md",
        f"Over three orders of the domains it is {ends[0]}%, {ends[1]}% and {ends[2]}%: the order with tweets first "
        f"costs all of them {NUMBERS[round(costs[0])]} to {NUMBERS[round(costs[-1])]} points",
    )

    page = "docs/encoders.md"
    yield (
        page,
        f"By the command it ends at {usual:.1f}% on sentiment with {forgotten:.1f} points forgotten "
        f"({len(runs)} seeds), against {everything}% of retraining on everything",
    )
    yield page, f"on sentiment it ends {three[1]} with {lost[1]} points forgotten"
    below, more_lost = (
        _whole_points(abs(tweets.mean("F+E", what) - tweets.mean("F+A", what))) for what in ("average", "forgetting")
    )
    yield (
        page,
        f"with tweets first, where everything forgets most, it ends {below} below F+E and forgets {more_lost} more",
    )
    lower = first.mean("F+E") - first.mean("F")
    yield page, f"it ends {lower:.1f} points lower on sentiment and forgets {lost[0]}"
    behind = [NUMBERS[round(rows.mean("F") - rows.mean("ridge"))] for rows in (first, reviews)]
    yield page, f"{behind[0]} points less than F on sentiment, {behind[1]} on reviews"
    share = first.rows["LoRA+A"]["trained"] / first.rows["F"]["trained"]
    yield page, f"it trains {share:.0%} of the weights"
    learnt = {name: whole.percent(name, "when_learnt") for name in ("frozen+M", "LoRA", "head only")}
    yield page, f"less well: {learnt['frozen+M']}% when learnt, against {learnt['LoRA']}%"
    both = whole.rows["F+M"]["test"]
    without = paired_over_seeds(both["without_slots"]["values"], both["average"]["values"]).to_json()
    yield page, f"they leave F+M better by {_points(without)}"
    yield page, f"random keys that never train end {_points(whole.against('fixed keys'))} lower"
    yield page, f"one slot in each of two layers {_points(whole.against('one slot'))} lower than 256"
    more, interval = _points(whole.against("head only", "forgetting")).split(" [")
    yield (
        page,
        f"({learnt['frozen+M']}% when learnt, against {learnt['head only']}%) and forget {more} more of the old ones "
        f"[{interval}: {_points(whole.against('head only'))} are left at the end",
    )
    slots, averaged, tuned = (tweets.mean(name, "forgetting") for name in ("frozen+M", "F+A", "F"))
    yield page, f"frozen+M forgets over {floor(slots)} points"
    yield page, f"F+A forgets nearly {ceil(averaged)} points there, and F {round(tuned)}"
    pairs = _read(root, "encoders/multinli.json")["encoders"]
    near, far = (_Rows(pairs[encoder]["orders"]["1"]).behind() for encoder in ("minilm", "distilbert-grammar"))
    yield page, f"ends {near['F']} points below F and LoRA+A and {near['LoRA']} below LoRA with MiniLM"
    yield (
        page,
        f"and {far['F']}, {far['LoRA+A']} and {far['LoRA']} below them with an encoder that has seen no NLI data",
    )


class _Rows:
    """The rows of a study in one order."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.rows, self.differences = order["rows"], order["differences"]

    def mean(self, row: str, what: str = "average") -> float:
        """In percent or points, on test data."""
        return 100 * float(self.rows[row]["test"][what]["mean"])

    def percent(self, row: str, what: str = "average") -> str:
        return f"{self.mean(row, what):.1f}"

    def seeds(self, row: str) -> int:
        return len(self.rows[row]["test"]["average"]["values"])

    def behind(self) -> dict[str, str]:
        """How many points frozen+M ends below each of its rivals."""
        rivals = ("F", "F+A", "LoRA", "LoRA+A")
        return {name: NUMBERS[round(self.mean(name) - self.mean("frozen+M"))] for name in rivals}

    def against(self, rival: str, what: str = "average") -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.differences[f"frozen+M - {rival}"]["test"][what]
        return found


def _whole_points(points: float) -> str:
    number = NUMBERS[round(points)]
    return "a point" if number == "one" else f"{number} points"


def _points(one: Mapping[str, Any]) -> str:
    return f"{100 * one['difference']:.1f} points [{signed(100 * one['low'])}, {signed(100 * one['high'])}]"


def _read(root: Path, name: str) -> Any:
    return json.loads((root / "results" / name).read_text(encoding="utf-8"))
