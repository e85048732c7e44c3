"""The paper's tables on dialogue, for the terminal (within eighty columns) and for pages."""

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from research.common.files import counted
from research.common.tables import MISSING, Column, Table, numbers, to_page
from research.paper.dialogue import BESIDE, LETTERS, TESTED, Measure
from research.paper.figures import Figures, Sample
from research.paper.report import arrow, in_full, made_by, mean_and_spread, p_of, printed, remarks
from research.paper.sheet import Cell, Line, Sheet

DIGITS = {"bleu2": 2, "w2v_sim": 3}  # that are shown
SHORT = {"perplexity": "perpl.", "distinct1": "dist-1", "distinct2": "dist-2", "length": "words"}
LEGEND = (
    "Mean ± standard deviation over seeds. Arrows: the paper's test against F+M+V, on the first seed (⇓ ⇑ p < 0.01, "
    "↓ ↑ p < 0.05; down is worse). p: two-sided, from a bootstrap over examples and seeds, Holm's correction."
)
TROUBLE = str.maketrans({"`": "'", "<": "&lt;"})  # what Markdown would take for its own
NUMBER = (Column("#", right=True, wrap="never"), Column("row", wrap="never"))

Find = Callable[[str, int], str | None]
"""The message of that number in a domain's test part."""


def dialogue_tables(figures: Figures, find: Find = lambda domain, index: None) -> Iterator[Table | Text]:
    """All that the terminal shows. Messages are looked up in the corpus: they are shown here and kept nowhere."""
    yield Text(f"{figures.title} ({counted(figures.seeds, 'seed')})", "bold")
    for sheet in figures.made.sheets:
        for measure in _known(sheet):
            yield Text(measure.title)
            yield _beside_paper(sheet, measure)
        yield _beside(sheet)
        yield Text(LEGEND, "dim")
    for sample in figures.made.samples or ():
        yield _sample(sample, find)
    yield from remarks(_sentences(figures), figures.failures)


def dialogue_markdown(figures: Figures) -> str:
    """All that a page shows of one of the tables."""
    return to_page(_page(figures))


def _page(figures: Figures) -> Iterator[Table | str]:
    for sheet in figures.made.sheets:
        yield LEGEND
        yield from _whole(sheet)
        yield _beside(sheet, "Beside them", spread=True)
    if samples := figures.made.samples:
        rows = [[one.domain, str(one.index), one.message, one.reply.translate(TROUBLE)] for one in samples]
        yield Table(None, ["domain", "number", "message (SHA-256)", "reply"], rows)
    yield from _sentences(figures)
    yield from (f"Missing: {failure}" for failure in figures.failures)
    yield made_by(figures)


def _sentences(figures: Figures) -> Iterator[str]:
    if (strength := figures.strength) is not None:
        tried = strength.validation_average.items()
        listed = ", ".join(f"{name} ({MISSING if mean is None else f'{mean:.1f}'})" for name, mean in tried)
        yield f"EWC's strength is {strength.chosen:g}, by validation perplexity (geometric mean of S and T): {listed}."
    yield from figures.made.notes


def _known(sheet: Sheet) -> list[Measure]:
    """The tested measures that any row has a figure of."""
    return [m for m in TESTED if any(line.cells[column].values for line in sheet.rows for column in m.columns)]


def _ours(cell: Cell, measure: Measure) -> str:
    """Mean, spread and the arrow against F+M+V."""
    return f"{mean_and_spread(cell.summary, digits=DIGITS[measure.name])} {_arrow(cell)}".rstrip()


def _arrow(cell: Cell) -> str:
    return arrow(next(iter(cell.tests.values()), None))


def _beside_paper(sheet: Sheet, measure: Measure) -> Table:
    header = [Column(name, wrap="never") for letter in LETTERS for name in (letter, "paper", "p")]
    rows = []
    for line in sheet.rows:
        cells = [line.cells[column] for column in measure.columns]
        shown = [(_ours(cell, measure), printed(cell, 3), p_of(cell.tests.get(sheet.references[0]))) for cell in cells]
        rows.append([*_name(line), *(text for three in shown for text in three)])
    return Table(None, [*NUMBER, *header], rows, layout="open")


def _whole(sheet: Sheet) -> Iterator[Table]:
    """Ours and the paper's, and all tests."""
    measures = _known(sheet)
    columns = [(measure, column) for measure in measures for column in measure.columns]
    header = ["#", "row", *(f"{measure.title} {letter}" for measure in measures for letter in LETTERS)]

    def with_paper(cell: Cell, measure: Measure) -> str:
        return _ours(cell, measure) + ("" if cell.paper is None else f" ({printed(cell, 3)})")

    yield Table(
        "Test figures, the paper's in brackets",
        header,
        [[*_name(line), *(with_paper(line.cells[column], m) for m, column in columns)] for line in sheet.rows],
    )
    (reference,) = sheet.references
    yield Table(
        f"Against {reference}: difference [95% interval], p; arrows by seed",
        header,
        [
            [*_name(line), *(in_full(line.cells[column].tests.get(reference), DIGITS[m.name]) for m, column in columns)]
            for line in sheet.rows
            if line.name != reference
        ],
    )


def _beside(sheet: Sheet, title: str | None = None, spread: bool = False) -> Table:
    """The columns beside the paper's; in a terminal there is room for means alone."""
    columns = [column for measure in BESIDE for column in measure.columns]
    header = [
        Column(f"{measure.title} {letter}", right=True, short=f"{SHORT[measure.name]} {letter}")
        for measure in BESIDE
        for letter in LETTERS
    ]

    def shown(cell: Cell) -> str:
        if spread:
            return mean_and_spread(cell.summary)
        return MISSING if cell.mean is None else f"{cell.mean:.1f}"

    rows = [[*_name(line), *(shown(line.cells[column]) for column in columns)] for line in sheet.rows]
    if spread:
        sizes = [f"{line.parameters:,}" if line.parameters else MISSING for line in sheet.rows]
        header, rows = [*header, *numbers("parameters")], [[*row, size] for row, size in zip(rows, sizes, strict=True)]
    return Table(title, [*NUMBER, *header], rows, layout="open")


def _sample(sample: Sample, find: Find) -> Text:
    message = find(sample.domain, sample.index)
    shown = Text(f"{sample.domain} {sample.index} ({sample.message})", "dim")
    if message is not None:
        shown.append(f"\n> {message}", "default")
    return shown.append(f"\n< {sample.reply or '(nothing)'}\n", "bold")


def _name(line: Line) -> Sequence[str]:
    return line.number, line.name
