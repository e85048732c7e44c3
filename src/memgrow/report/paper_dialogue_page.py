"""The paper's tables on dialogue as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memgrow.experiments.paper.dialogue.measures import BESIDE, TESTED
from memgrow.experiments.paper.dialogue.protocol import LETTERS
from memgrow.report.paper_dialogue import LEGEND, SHOWN, known, ours, paper, sentences
from memgrow.report.paper_text import accuracy, arrows_of_seeds, test_of
from memgrow.report.table import MISSING, p_value, signed

Figures = Mapping[str, Any]
TROUBLE = str.maketrans({"|": "\\|", "`": "'", "<": "&lt;"})  # what Markdown would take for its own


def dialogue_markdown(figures: Figures) -> str:
    """One of the tables, all of it."""
    return "\n".join(_blocks(figures)).rstrip("\n")


def _blocks(figures: Figures) -> Iterator[str]:
    for sheet in figures.get("sheets", ()):
        yield f"{LEGEND}\n"
        yield from _sheet(sheet)
    if figures.get("samples"):
        rows = [(s["domain"], str(s["index"]), s["message"], s["reply"].translate(TROUBLE)) for s in figures["samples"]]
        yield from _table(("domain", "number", "message (SHA-256)", "reply"), rows)
    for sentence in (*sentences(figures), *(f"Missing: {failure}" for failure in figures["failures"])):
        yield f"{sentence}\n"
    yield f"From `{figures['command']}`, {figures['seeds']} seed{'s' if figures['seeds'] > 1 else ''}.\n"


def _sheet(sheet: Figures) -> Iterator[str]:
    shown = [measure for measure in TESTED if known(sheet, measure)]
    columns = [(measure, column) for measure in shown for column in measure.columns]
    names = [f"{measure.title} {letter}" for measure in shown for letter in LETTERS]
    yield "Test figures, the paper's in brackets:\n"
    yield from _table(
        ("#", "", *names),
        [
            [*_name(row), *(_beside_paper(row["cells"][column], measure) for measure, column in columns)]
            for row in sheet["rows"]
        ],
    )
    (reference,) = sheet["references"]
    yield f"Against {reference}: difference [95% interval], p; arrows by seed:\n"
    yield from _table(
        ("#", "", *names),
        [
            [
                *_name(row),
                *(_tested(test_of(row["cells"][column], reference), SHOWN[m.name]) for m, column in columns),
            ]
            for row in sheet["rows"]
            if row["name"] != reference
        ],
    )
    yield "Beside them:\n"
    yield from _table(
        ("#", "", *(f"{measure.title} {letter}" for measure in BESIDE for letter in LETTERS), "parameters"),
        [
            [
                *_name(row),
                *(accuracy(row["cells"][column]) for measure in BESIDE for column in measure.columns),
                f"{row['parameters']:,}" if row.get("parameters") else MISSING,
            ]
            for row in sheet["rows"]
        ],
    )


def _beside_paper(cell: Figures, measure: Any) -> str:
    return f"{ours(cell, measure)} ({paper(cell)})" if "paper" in cell else ours(cell, measure)


def _tested(test: Figures | None, digits: int) -> str:
    if test is None:
        return ""
    middle, low, high = (signed(test[name], digits) for name in ("difference", "low", "high"))
    return f"{middle} [{low}, {high}], {p_value(test['p_holm'])}; {arrows_of_seeds(test)}"


def _name(row: Figures) -> Sequence[str]:
    return str(row["line"] or ""), row["name"]


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{'---|' * len(heading)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
