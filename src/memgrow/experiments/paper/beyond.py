"""Methods that the paper does not have, and which of them stand in its tables as a second block.

To try another: add a row to CANDIDATES, such as _row("F+V+A", "F+V+A, a third", keep=1 / 3). Options that a row does
not name are the protocol's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memgrow.experiments.paper.protocol import PAIR, PROPOSED, SOURCE, TARGET, Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.sheet import FIVE, sheet
from memgrow.experiments.paper.table2 import S_AND_T
from memgrow.methods import find_method

GROUP = "beyond the paper"
BAR = "multi-task"  # all data at once: what is to be reached without it


def _row(method: str, name: str | None = None, **options: Any) -> Row:
    return Row(name or method, method, options=options, group=GROUP)


CANDIDATES: tuple[Row, ...] = (
    _row("F+V+A"),
    _row("F+V+A", "F+V+A, 0.7", keep=0.7),
    _row("F+V+E"),
    _row("F+V+A+E"),
    _row("F+V+D"),
    _row("F+V+D+E"),
    _row("F+V+A+D", "F+V+A+D, light", keep=0.3, distil=0.5),
    _row("F+M+V+Q"),
    _row("F+M+V+A"),
    _row("F+M+V+L"),
    _row("EWC+M+V"),
)
EXTRA_METHODS = ("F+V+A", "F+V+A+E", "F+V+D", "F+M+V+A")  # of the candidates, those that stand in Table 4

BASELINES = tuple(Row(name, name) for name in (PROPOSED, "F+V", BAR, f"{BAR}+E"))
REFERENCES = {name: dict.fromkeys(FIVE, name) for name in (PROPOSED, BAR)}
PAIR_REFERENCES = {name: dict.fromkeys(S_AND_T, name) for name in (PROPOSED, BAR)}
NOTES = (
    "A: halfway back to the old weights after a domain; D: the old model's answers to the new texts are held on to; "
    "E: a running mean of the weights is kept, from the old ones on; Q: new slots are let in slowly; L: old parameters "
    "take smaller steps. None of these sees old data. multi-task+E shows what the mean is worth with all data there.",
    "The choice goes by the column of validation; the test parts are for reporting.",
)


def extra() -> list[Row]:
    return [row for row in CANDIDATES if row.name in EXTRA_METHODS]


def rows(protocol: Protocol) -> list[Row]:
    return [*_pair(), *BASELINES, *CANDIDATES]


def _pair() -> list[Row]:
    """The same from one genre to a second: a first look at every candidate, which costs little beside the other."""
    return [replace(row, learns=PAIR) for row in (*BASELINES, *CANDIDATES) if row.method != f"{BAR}+E"]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    made = sheet([*BASELINES, *CANDIDATES], FIVE, protocol, results, seeds, references=REFERENCES)
    pair = sheet(_pair(), S_AND_T, protocol, results, seeds, references=PAIR_REFERENCES)
    titled = [{"title": "after five genres", **made}, {"title": f"{SOURCE}, then {TARGET}", **pair}]
    return {"sheets": titled, "best_on_validation": _best(made["rows"], seeds), "notes": list(NOTES)}


def _best(lines: Sequence[Mapping[str, Any]], seeds: int) -> str | None:
    """The best without old data; None while one of them lacks a seed, as means over other seeds cannot be compared."""
    known = {line["name"]: line["validation"] for line in lines if find_method(line["method"]).incremental}
    if any(len(validation["values"]) < seeds for validation in known.values()):
        return None
    return max(known, key=lambda name: float(known[name]["mean"]), default=None)
