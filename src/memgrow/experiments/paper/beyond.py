"""Methods that the paper does not have: a first look at all, and five genres for those that come out of it.

To try another: add a row to CANDIDATES, such as _row("F+V+A", "F+V+A, a third", keep=1 / 3), and its name to FINALISTS
if it is to go on. Options that a row does not name are the protocol's.
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
# The best on validation from the first genre to the second; the simplest of those next to it; and the two together.
FINALISTS = ("F+V+E", "F+V+A", "F+V+A+E")

BASELINES = tuple(Row(name, name) for name in (PROPOSED, BAR, f"{BAR}+E"))
PAIR_BASELINES = tuple(Row(name, name) for name in (PROPOSED, "F+V", BAR))
REFERENCES = {name: dict.fromkeys(FIVE, name) for name in (PROPOSED, BAR)}
PAIR_REFERENCES = {name: dict.fromkeys(S_AND_T, name) for name in (PROPOSED, BAR)}
NOTES = (
    "A: halfway back to the old weights after a domain; D: the old model's answers to the new texts are held on to; "
    "E: a running mean of the weights is kept, from the old ones on; Q: new slots are let in slowly; L: old parameters "
    "take smaller steps. None of these sees old data. multi-task+E shows what the mean is worth with all data there.",
    "All candidates go from the first genre to the second; of these, " + ", ".join(FINALISTS) + " go on through five. "
    "F+V is in Tables 3 and 4 after five genres.",
    "The choice goes by the column of validation; the test parts are for reporting.",
)


def finalists() -> list[Row]:
    return [row for row in CANDIDATES if row.name in FINALISTS]


def rows(protocol: Protocol) -> list[Row]:
    return [*_pair(), *BASELINES, *finalists()]


def _pair() -> list[Row]:
    """The same from one genre to a second: a first look at every candidate, which costs little beside the other."""
    return [replace(row, learns=PAIR) for row in (*PAIR_BASELINES, *CANDIDATES)]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    made = sheet([*BASELINES, *finalists()], FIVE, protocol, results, seeds, references=REFERENCES)
    pair = sheet(_pair(), S_AND_T, protocol, results, seeds, references=PAIR_REFERENCES)
    titled = [{"title": "after five genres", **made}, {"title": f"{SOURCE}, then {TARGET}", **pair}]
    return {"sheets": titled, "best_on_validation": _best(made["rows"], seeds), "notes": list(NOTES)}


def _best(lines: Sequence[Mapping[str, Any]], seeds: int) -> str | None:
    """The best without old data; None while a finalist lacks a seed: means over other seeds cannot be compared."""
    whole = {line["name"]: line for line in lines if len(line["validation"]["values"]) >= seeds}
    if any(line.get("group") == GROUP and line["name"] not in whole for line in lines):
        return None
    known = {n: line["validation"]["mean"] for n, line in whole.items() if find_method(line["method"]).incremental}
    return max(known, key=lambda name: float(known[name]), default=None)
