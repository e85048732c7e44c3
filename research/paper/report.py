"""The paper's tables on MultiNLI, for the terminal (within eighty columns) and for pages: ours, the paper's, tests."""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from research.common.files import counted
from research.common.tables import MISSING, Column, Table, numbers, p_value, signed, to_page
from research.paper.figures import Figures, Study
from research.paper.sheet import Cell, Line, Sheet, Summary, Test

ARROWS = {"DOWN": "⇓", "down": "↓", "up": "↑", "UP": "⇑"}
SHORT = {"fiction": "Fic", "government": "Gov", "slate": "Slate", "telephone": "Tel", "travel": "Travel"}
LEGEND = (
    "Accuracy in %, mean ± standard deviation over seeds. Arrows: the paper's test, on the first seed (⇓ ⇑ p < 0.01, "
    "↓ ↑ p < 0.05; down is worse than the reference). p: two-sided over seeds and examples, Holm's correction."
)
BESIDE = ", the paper's in brackets"
FEW = 3  # columns that stand side by side in a terminal with all they have; more of them are stacked
MEASURES = {
    "validation": Column("validation, %", True, "never", short="validation"),
    "forgetting": Column("forgetting, points", True, "never", short="forgot"),
    "epochs": Column("epochs", True, "never"),
    "seconds": Column("seconds", True, "never"),
}


def arrow(test: Test | None) -> str:
    return ARROWS.get((test and test.arrow) or "", "")


def mean_and_spread(summary: Summary, between: str = " ± ", digits: int = 1) -> str:
    """Mean and, of several seeds, spread."""
    if summary.mean is None:
        return MISSING
    mean = f"{summary.mean:.{digits}f}".replace("-", "−")
    return mean + ("" if summary.spread is None else f"{between}{summary.spread:.{digits}f}")


def printed(cell: Cell, digits: int = 2) -> str:
    """The paper's own figure, with its arrow."""
    return "" if cell.paper is None else f"{cell.paper:.{digits}f}{ARROWS.get(cell.paper_arrow or '', '')}"


def difference(test: Test, digits: int = 1) -> str:
    """Above or below the reference, with the 95% interval."""
    middle, low, high = (signed(value, digits) for value in (test.difference, test.low, test.high))
    return middle if test.low is None else f"{middle} [{low}, {high}]"


def in_full(test: Test | None, digits: int = 1) -> str:
    """A test, all of it: the arrows are of how many seeds."""
    if test is None:
        return ""
    arrows = ", ".join(f"{count} {ARROWS.get(name, 'none')}" for name, count in test.arrows.items())
    return f"{difference(test, digits)}, {p_value(test.p_holm)}; {arrows}"


def p_of(test: Test | None) -> str:
    return p_value(test.p_holm) if test else ""


def dim(*cells: str) -> list[Text]:
    return [Text(cell, "dim") for cell in cells]


def paper_tables(figures: Figures) -> Iterator[Table | Text]:
    """All that the terminal shows of one of the tables."""
    yield Text(f"{figures.title} ({figures.seeds} seeds)", "bold")
    if figures.made.corpus is not None:
        yield _pairs(figures)
    for name, study in figures.made.studies.items():
        yield _study(f"{name}: {study.about}", study, "±")
    for sheet in figures.made.sheets:
        if sheet.title is not None:
            yield Text(sheet.title, "bold")
        yield _side_by_side(sheet) if len(sheet.columns) <= FEW else _stacked(sheet)
        if sheet.part == "test":
            yield _measures(sheet, None)
    yield from remarks(_sentences(figures), figures.failures)


def remarks(sentences: Iterable[str], failures: Iterable[str]) -> Iterator[Text]:
    """The sentences below a table in a terminal, and what is missing in it."""
    for sentence in sentences:
        yield Text(sentence, "dim")
    for failure in failures:
        yield Text(f"missing: {failure}", "red")


def paper_markdown(figures: Figures) -> str:
    """All that a page shows of one of the tables."""
    return to_page(_page(figures))


def _page(figures: Figures) -> Iterator[Table | str]:
    if figures.made.corpus is not None:
        yield _pairs(figures)
    for name, study in figures.made.studies.items():
        yield f"**{name}**: {study.about} ({figures.seeds} seeds; {' → '.join(study.learns)})"
        yield _study(None, study)
    for sheet in figures.made.sheets:
        title = f"{sheet.title}: " if sheet.title is not None else ""
        yield from _whole(sheet, title)
        if sheet.part == "test":
            yield _measures(sheet, f"{title}what it forgot and cost, mean ± standard deviation")
    yield from _sentences(figures)
    yield from (f"Missing: {failure}" for failure in figures.failures)
    yield made_by(figures)


def made_by(figures: Figures) -> str:
    return f"From `{figures.command}`, {'one seed' if figures.seeds == 1 else counted(figures.seeds, 'seed')}."


def _sentences(figures: Figures) -> Iterator[str]:
    if figures.strength is not None:
        tried = figures.strength.validation_average
        listed = ", ".join(f"{strength} ({mean or MISSING})" for strength, mean in tried.items())
        yield f"EWC's strength is {figures.strength.chosen:g}; tried, with the validation average: {listed}."
    if (chosen := figures.made.chosen) is not None:
        paper = "" if chosen.paper is None else f"; the paper chose {chosen.paper:g}"
        yield f"Best on validation: {MISSING if chosen.value is None else f'{chosen.value:g}'}{paper}."
    if (best := figures.made.best) is not None:
        yield f"Best on validation without old data: {best.value or MISSING}."
    yield from figures.made.notes


def _side_by_side(sheet: Sheet) -> Table:
    """One line for each row, and for each column ours, the paper's and p as far as there are any."""
    numbered = any("line" in line.about for line in sheet.rows)
    header = [*([Column("#", right=True)] if numbered else []), Column("row")]
    rows = [[*([line.number] if numbered else []), line.name] for line in sheet.rows]
    for column in sheet.columns:
        cells = [line.cells[column] for line in sheet.rows]
        tests = [_test(cell, sheet) for cell in cells]
        shown = {
            f"{column}, %": [
                f"{mean_and_spread(cell.summary)} {arrow(test)}".rstrip()
                for cell, test in zip(cells, tests, strict=True)
            ]
        }
        if any(cell.paper is not None for cell in cells):
            shown["paper"] = [printed(cell) for cell in cells]
        if any(cell.tests for cell in cells):
            shown["p"] = [p_of(test) for test in tests]
        header += [Column(name, wrap="never") for name in shown]
        rows = [[*row, *more] for row, more in zip(rows, zip(*shown.values(), strict=True), strict=True)]
    return Table(None, header, rows, layout="open")


def _stacked(sheet: Sheet) -> Table:
    """Several lines for each row: ours, the paper's, p."""
    rows: list[Sequence[str | Text]] = []
    for line in sheet.rows:
        cells = [line.cells[column] for column in sheet.columns]
        rows.append([line.name, *(mean_and_spread(cell.summary, "±") + arrow(_test(cell, sheet)) for cell in cells)])
        if any(cell.paper is not None for cell in cells):
            rows.append(dim("  paper", *map(printed, cells)))
        for reference in sheet.references:
            tests = [cell.tests.get(reference) for cell in cells]
            if any(tests):
                rows.append(dim("  p" if len(sheet.references) == 1 else f"vs {reference}", *map(p_of, tests)))
    header = [Column("row", width=13), *(Column(SHORT.get(column, column), wrap="never") for column in sheet.columns)]
    return Table(None, header, rows, layout="open")


def _whole(sheet: Sheet, title: str) -> Iterator[Table]:
    """Ours and the paper's, and a table of all tests against each reference."""
    numbered = any(line.number for line in sheet.rows)
    beside = any(cell.paper is not None for line in sheet.rows for cell in line.cells.values())

    def name(line: Line) -> list[str]:
        return [*([line.number] if numbered else []), line.name]

    def header(columns: Sequence[str]) -> list[str]:
        return [*(["#"] if numbered else []), "row", *(SHORT.get(column, column) for column in columns)]

    yield Table(
        f"{title}{sheet.part} accuracy{BESIDE if beside else ''}",
        [*header(sheet.columns), "seeds"],
        [
            [
                *name(line),
                *(_with_paper(line.cells[column], sheet) for column in sheet.columns),
                str(max(len(cell.values) for cell in line.cells.values())),
            ]
            for line in sheet.rows
        ],
    )
    for reference in sheet.references:
        lines = [line for line in sheet.rows if any(reference in cell.tests for cell in line.cells.values())]
        shown = [column for column in sheet.columns if any(reference in line.cells[column].tests for line in lines)]
        yield Table(
            f"{title}against {reference}: difference in points [95% interval], p; arrows by seed",
            header(shown),
            [[*name(line), *(in_full(line.cells[column].tests.get(reference)) for column in shown)] for line in lines],
        )


def _with_paper(cell: Cell, sheet: Sheet) -> str:
    paper = "" if cell.paper is None else f" ({printed(cell)})"
    return f"{mean_and_spread(cell.summary)}{arrow(_test(cell, sheet))}{paper}"


def _test(cell: Cell, sheet: Sheet) -> Test | None:
    """Against the reference that arrows are about: the first."""
    return cell.tests.get(next(iter(sheet.references), ""))


def _measures(sheet: Sheet, title: str | None) -> Table:
    """The columns of forgetting and cost."""
    rows = [
        [
            line.name,
            *(mean_and_spread(line.measures[name]) for name in MEASURES),
            MISSING if line.parameters is None else f"{line.parameters:,}",
        ]
        for line in sheet.rows
    ]
    return Table(title, ["row", *MEASURES.values(), *numbers("parameters")], rows, layout="open")


def _study(title: str | None, study: Study, between: str = " ± ") -> Table:
    """A line for each point: the methods' averages, and by how much the second is above the first."""
    base, grown = study.methods[:2]
    header = [
        Column("condition", short=""),
        *(Column(method, wrap="never") for method in study.methods),
        Column(f"{grown} above {base}", wrap="never", short="difference"),
        Column("p", wrap="never"),
        Column("earlier domains", wrap="never", short="old"),
        Column("last domain", wrap="never", short="new"),
    ]
    rows = []
    for sheet in study.sheets:
        cells = {line.name: line.cells for line in sheet.rows}
        average, earlier, last = (cells[grown][column].tests.get(base) for column in ("average", "earlier", "last"))
        rows.append(
            [
                sheet.title or "",
                *(mean_and_spread(cells[method]["average"].summary, between) for method in study.methods),
                difference(average) if average else MISSING,
                p_value(average.p_holm) if average else MISSING,
                *(signed(test.difference if test else None) for test in (earlier, last)),
            ]
        )
    return Table(None if title is None else Text(title), header, rows, layout="open")


def _pairs(figures: Figures) -> Table:
    corpus = figures.made.corpus
    assert corpus is not None
    genres = list(corpus.training_pairs)

    def row(name: str, counts: Sequence[int | None]) -> list[str]:
        return [name, *(MISSING if count is None else f"{count:,}" for count in counts)]

    rows = [
        row("training pairs", [corpus.training_pairs[genre]["ours"] for genre in genres]),
        row("training pairs, paper", [corpus.training_pairs[genre]["paper"] for genre in genres]),
    ]
    if data := figures.material.get("data"):
        rows += [row(f"{part} pairs", [data[genre][part] for genre in genres]) for part in ("validation", "test")]
    rows.append(["Yu et al. (2018), %", *(f"{corpus.yu2018[genre]:.1f}" for genre in genres)])
    return Table(None, ["figure", *numbers(*(SHORT[genre] for genre in genres))], rows, layout="open")
