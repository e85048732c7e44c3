"""The paper's tables as Markdown: every row beside the paper's figures, with spread, seeds and both kinds of test."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memgrow.report.paper_text import SHORT, accuracy, arrow, arrows_of_seeds, difference, printed, test_of
from memgrow.report.table import MISSING, p_value, signed

BESIDE = ", the paper's in brackets"

Figures = Mapping[str, Any]
Cells = Sequence[str]


def markdown(figures: Figures) -> str:
    """One of the tables, all of it."""
    return "\n".join([*_blocks(figures)]).rstrip("\n")


def _blocks(figures: Figures) -> Iterator[str]:
    if "training_pairs" in figures:
        yield from _pairs(figures)
    for name, study in figures.get("studies", {}).items():
        yield from _study(name, study, figures["seeds"])
    for sheet in figures.get("sheets", ()):
        yield from _sheet(sheet)
    if "strength" in figures:
        tried = figures["strength"]["validation_average"]
        listed = ", ".join(f"{strength} ({mean or MISSING})" for strength, mean in tried.items())
        yield f"EWC's strength is {figures['strength']['chosen']:g}; tried, with the validation average: {listed}.\n"
    if figures.get("chosen") is not None:
        paper = f"; the paper chose {figures['paper_chose']:g}" if "paper_chose" in figures else ""
        yield f"Best on validation: {figures['chosen']:g}{paper}.\n"
    if figures.get("best_on_validation"):
        yield f"Best on validation without old data: {figures['best_on_validation']}.\n"
    for note in figures["notes"]:
        yield f"{note}\n"
    for failure in figures["failures"]:
        yield f"Missing: {failure}\n"
    yield f"From `{figures['command']}`, {_seeds(figures)}.\n"


def _seeds(figures: Figures) -> str:
    return "one seed" if figures["seeds"] == 1 else f"{figures['seeds']} seeds"


def _sheet(sheet: Figures) -> Iterator[str]:
    numbered = any(row.get("line") for row in sheet["rows"])
    title = f"{sheet['title']}: " if "title" in sheet else ""
    columns = sheet["columns"]
    beside = any("paper" in cell for row in sheet["rows"] for cell in row["cells"].values())
    yield f"{title}{sheet['part']} accuracy{BESIDE if beside else ''}:\n"
    heading = [*(["#"] if numbered else []), "", *(SHORT.get(column, column) for column in columns), "seeds"]
    yield from _table(
        heading, ([*_name(row, numbered), *_accuracies(row, sheet), _count(row)] for row in sheet["rows"])
    )
    for reference in sheet["references"]:
        tested = [row for row in sheet["rows"] if any(test_of(row["cells"][c], reference) for c in columns)]
        shown = [column for column in columns if any(test_of(row["cells"][column], reference) for row in tested)]
        yield f"{title}against {reference}: difference in points [95% interval], p; arrows by seed:\n"
        heading = [*(["#"] if numbered else []), "", *(SHORT.get(column, column) for column in shown)]
        yield from _table(
            heading,
            (
                [*_name(row, numbered), *(_tested(test_of(row["cells"][column], reference)) for column in shown)]
                for row in tested
            ),
        )
    if sheet["part"] == "test":
        yield f"{title}what it forgot and cost, mean ± standard deviation:\n"
        yield from _table(
            ["", "validation, %", "forgetting, points", "epochs", "seconds", "parameters"],
            (_measures(row) for row in sheet["rows"]),
        )


def _tested(test: Figures | None) -> str:
    if test is None:
        return ""
    return f"{difference(test)}, {p_value(test['p_holm'])}; {arrows_of_seeds(test)}"


def _name(row: Figures, numbered: bool) -> Cells:
    return [*([str(row.get("line") or "")] if numbered else []), row["name"]]


def _accuracies(row: Figures, sheet: Figures) -> Iterator[str]:
    first = next(iter(sheet["references"]), None)
    for column in sheet["columns"]:
        cell = row["cells"][column]
        test = test_of(cell, first)
        paper = f" ({printed(cell)})" if "paper" in cell else ""
        yield f"{accuracy(cell)}{arrow(test['arrow'] if test else None)}{paper}"


def _count(row: Figures) -> str:
    return str(max(len(cell["values"]) for cell in row["cells"].values()))


def _measures(row: Figures) -> Cells:
    size = MISSING if row["parameters"] is None else f"{row['parameters']:,}"
    measured = [accuracy(row[name]) for name in ("validation", "forgetting", "epochs", "seconds")]
    return [row["name"], *measured, size]


def _study(name: str, study: Figures, seeds: int) -> Iterator[str]:
    base, grown = study["methods"][:2]
    yield f"**{name}**: {study['about']} ({seeds} seeds; {' → '.join(study['learns'])})\n"
    heading = ["", *study["methods"], f"{grown} above {base}", "p", "earlier domains", "last domain"]
    yield from _table(heading, (_point(sheet, study["methods"]) for sheet in study["sheets"]))


def _point(sheet: Figures, methods: Sequence[str]) -> Cells:
    rows = {row["name"]: row["cells"] for row in sheet["rows"]}
    base, grown = methods[:2]
    tests = {column: test_of(rows[grown][column], base) for column in sheet["columns"]}
    average = tests["average"]
    apart = [signed(test["difference"] if (test := tests[column]) else None) for column in ("earlier", "last")]
    return [
        sheet["title"],
        *(accuracy(rows[method]["average"]) for method in methods),
        difference(average) if average else MISSING,
        p_value(average["p_holm"]) if average else MISSING,
        *apart,
    ]


def _pairs(figures: Figures) -> Iterator[str]:
    pairs = figures["training_pairs"]
    ours = [MISSING if counts["ours"] is None else f"{counts['ours']:,}" for counts in pairs.values()]
    yield from _table(
        ["", *(SHORT[genre] for genre in pairs)],
        [
            ["training pairs", *ours],
            ["training pairs, paper", *(f"{counts['paper']:,}" for counts in pairs.values())],
            *(
                [f"{part} pairs", *(f"{figures['data'][genre][part]:,}" for genre in pairs)]
                for part in ("validation", "test")
                if "data" in figures
            ),
            ["Yu et al. (2018), %", *(f"{figures['yu2018'][genre]:.1f}" for genre in pairs)],
        ],
    )


def _table(heading: Cells, rows: Iterator[Cells] | Sequence[Cells]) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{'---|' * len(heading)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
