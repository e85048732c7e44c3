"""The paper's tables in the terminal, within eighty columns: ours, the paper's figure, both kinds of test."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memgrow.report.paper_text import SHORT, accuracy, arrow, difference, printed, test_of
from memgrow.report.table import MISSING, p_value, signed

FEW = 3  # columns that stand side by side with all they have; more of them are stacked
MEASURES = {"validation": "validation", "forgetting": "forgot", "epochs": "epochs", "seconds": "seconds"}

Figures = Mapping[str, Any]


def paper_tables(figures: Figures) -> Iterator[RenderableType]:
    """All that is shown of one of the paper's tables."""
    yield Text(f"{figures['title']} ({figures['seeds']} seeds)", "bold")
    if "training_pairs" in figures:
        yield _pairs(figures["training_pairs"], figures["yu2018"])
    for name, study in figures.get("studies", {}).items():
        yield _study(name, study)
    for sheet in figures.get("sheets", ()):
        if "title" in sheet:
            yield Text(sheet["title"], "bold")
        yield _wide(sheet) if len(sheet["columns"]) <= FEW else _stacked(sheet)
        if sheet["part"] == "test":
            yield _measures(sheet)
    for sentence in _sentences(figures):
        yield Text(sentence, "dim")
    for failure in figures["failures"]:
        yield Text(f"missing: {failure}", "red")


def _sentences(figures: Figures) -> Iterator[str]:
    if "chosen" in figures:
        paper = f"; the paper chose {figures['paper_chose']:g}" if "paper_chose" in figures else ""
        yield f"Best on validation: {_number(figures['chosen'])}{paper}."
    if "best_on_validation" in figures:
        yield f"Best on validation without old data: {figures['best_on_validation'] or MISSING}."
    if "strength" in figures:
        tried = ", ".join(figures["strength"]["validation_average"])
        yield f"EWC's strength is {_number(figures['strength']['chosen'])}, chosen on validation from {tried}."
    yield from figures["notes"]


def _wide(sheet: Figures) -> Table:
    """One line for each row, and for each column ours, the paper's and p as far as there are any."""
    table = _table()
    numbered = any("line" in row for row in sheet["rows"])
    if numbered:
        table.add_column("#", justify="right")
    table.add_column("")
    shown = [(column, *_has(sheet, column)) for column in sheet["columns"]]
    for column, paper, tested in shown:
        table.add_column(f"{column}, %", no_wrap=True)
        for heading in ("paper",) * paper + ("p",) * tested:
            table.add_column(heading, no_wrap=True)
    for row in sheet["rows"]:
        cells = [cell for part in shown for cell in _side_by_side(row, _first(sheet), *part)]
        table.add_row(*([str(row.get("line") or "")] if numbered else []), Text(row["name"]), *cells)
    return table


def _side_by_side(row: Figures, reference: str | None, column: str, paper: bool, tested: bool) -> list[str]:
    cell = row["cells"][column]
    test = test_of(cell, reference)
    ours = f"{accuracy(cell)} {arrow(test['arrow']) if test else ''}".rstrip()
    return [ours, *([printed(cell)] * paper), *([p_value(test["p_holm"]) if test else ""] * tested)]


def _stacked(sheet: Figures) -> Table:
    """Several lines for each row: ours, the paper's, p."""
    table = _table()
    table.add_column("", max_width=13)
    for column in sheet["columns"]:
        table.add_column(SHORT.get(column, column), no_wrap=True)
    for row in sheet["rows"]:
        cells = [row["cells"][column] for column in sheet["columns"]]
        table.add_row(Text(row["name"]), *(_with_arrow(cell, _first(sheet)) for cell in cells))
        if any("paper" in cell for cell in cells):
            table.add_row(Text("  paper", "dim"), *(Text(printed(cell), "dim") for cell in cells))
        for reference in sheet["references"]:
            tests = [test_of(cell, reference) for cell in cells]
            if any(tests):
                label = "  p" if len(sheet["references"]) == 1 else f"vs {reference}"
                shown = [p_value(test["p_holm"]) if test else "" for test in tests]
                table.add_row(Text(label, "dim"), *(Text(p, "dim") for p in shown))
    return table


def _with_arrow(cell: Figures, reference: str | None) -> str:
    test = test_of(cell, reference)
    return accuracy(cell, "±") + (arrow(test["arrow"]) if test else "")


def _first(sheet: Figures) -> str | None:
    """The reference that arrows are about."""
    return next(iter(sheet["references"]), None)


def _measures(sheet: Figures) -> Table:
    """What the rows forgot and cost."""
    table = _table()
    table.add_column("")
    for heading in (*MEASURES.values(), "parameters"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in sheet["rows"]:
        cells = ["" if row[name]["mean"] is None else accuracy(row[name]) for name in MEASURES]
        size = row["parameters"]
        table.add_row(Text(row["name"]), *cells, MISSING if size is None else f"{size:,}")
    return table


def _study(name: str, study: Figures) -> Table:
    """A line for each point: the methods' averages, and by how much the second is above the first."""
    base, grown = study["methods"][:2]
    table = _table(f"{name}: {study['about']}")
    for heading in ("", *study["methods"], "difference", "p", "old", "new"):
        table.add_column(heading, no_wrap=heading != "")
    for sheet in study["sheets"]:
        rows = {row["name"]: row["cells"] for row in sheet["rows"]}
        tests = {column: test_of(rows[grown][column], base) for column in ("average", "earlier", "last")}
        average = tests["average"]
        table.add_row(
            Text(sheet["title"]),
            *(accuracy(rows[method]["average"], "±") for method in study["methods"]),
            difference(average) if average else MISSING,
            p_value(average["p_holm"]) if average else MISSING,
            *(signed(test["difference"] if (test := tests[column]) else None) for column in ("earlier", "last")),
        )
    return table


def _pairs(pairs: Mapping[str, Mapping[str, int | None]], others: Mapping[str, float]) -> Table:
    table = _table()
    table.add_column("")
    for genre in pairs:
        table.add_column(SHORT[genre], justify="right")
    table.add_row("training pairs", *(_number(counts["ours"]) for counts in pairs.values()))
    table.add_row(Text("  paper", "dim"), *(Text(_number(counts["paper"]), "dim") for counts in pairs.values()))
    table.add_row("Yu et al. (2018), %", *(f"{others[genre]:.1f}" for genre in pairs))
    return table


def _has(sheet: Figures, column: str) -> tuple[bool, bool]:
    """Whether any row has the paper's figure, and a test, in that column."""
    cells: Sequence[Mapping[str, Any]] = [row["cells"][column] for row in sheet["rows"]]
    return any("paper" in cell for cell in cells), any(cell.get("tests") for cell in cells)


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _table(title: str | None = None) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
