"""The paper's tables on dialogue in the terminal, within eighty columns: ours, the paper's figures, both tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from memgrow.experiments.paper.dialogue.measures import BESIDE, TESTED, Measure
from memgrow.experiments.paper.dialogue.protocol import LETTERS
from memgrow.report.paper_text import accuracy, arrow, test_of
from memgrow.report.table import MISSING, p_value

SHOWN = {"bleu2": 2, "w2v_sim": 3}  # digits
SHORT = {"perplexity": "perpl.", "distinct1": "dist-1", "distinct2": "dist-2", "length": "words"}
LEGEND = (
    "Mean ± standard deviation over seeds. Arrows: the paper's test against F+M+V, on the first seed (⇓ ⇑ p < 0.01, "
    "↓ ↑ p < 0.05; down is worse). p: two-sided, from a bootstrap over examples and seeds, Holm's correction."
)

Figures = Mapping[str, Any]
Find = Callable[[str, int], str | None]
"""The message of that number in a domain's test part."""


def show_dialogue(console: Console, figures: Figures, folder: Path, find: Find = lambda domain, index: None) -> None:
    """A table as it was made. Messages are looked up in the corpus: they are shown here and kept nowhere."""
    for shown in dialogue_tables(figures, find):
        console.print(shown)
    console.print(Text(f"The figures are in {folder / figures['table']}.json.\n"), soft_wrap=True)


def dialogue_tables(figures: Figures, find: Find = lambda domain, index: None) -> Iterator[RenderableType]:
    yield Text(f"{figures['title']} ({figures['seeds']} seed{'s' if figures['seeds'] > 1 else ''})", "bold")
    for sheet in figures.get("sheets", ()):
        for measure in TESTED:
            if known(sheet, measure):
                yield Text(measure.title)
                yield _tested(sheet, measure)
        yield _beside(sheet)
        yield Text(LEGEND, "dim")
    for sample in figures.get("samples", ()):
        yield _sample(sample, find)
    for sentence in sentences(figures):
        yield Text(sentence, "dim")
    for failure in figures["failures"]:
        yield Text(f"missing: {failure}", "red")


def sentences(figures: Figures) -> Iterator[str]:
    if "strength" in figures:
        chosen, tried = figures["strength"]["chosen"], figures["strength"]["validation_average"]
        listed = ", ".join(f"{name} ({MISSING if mean is None else f'{mean:.1f}'})" for name, mean in tried.items())
        yield f"EWC's strength is {chosen:g}, by validation perplexity (geometric mean of S and T): {listed}."
    yield from figures["notes"]


def known(sheet: Figures, measure: Measure) -> bool:
    """Whether any row has a figure of it."""
    return any(row["cells"][column]["values"] for row in sheet["rows"] for column in measure.columns)


def ours(cell: Figures, measure: Measure, between: str = " ± ") -> str:
    """Mean, spread and the arrow against F+M+V."""
    test = next(iter(cell.get("tests", {}).values()), None)
    return f"{accuracy(cell, between, SHOWN[measure.name])} {arrow(test['arrow']) if test else ''}".rstrip()


def paper(cell: Figures) -> str:
    return f"{cell['paper']:.3f}{arrow(cell['paper_arrow'])}" if "paper" in cell else ""


def _tested(sheet: Figures, measure: Measure) -> Table:
    table = _table("#", "")
    for letter in LETTERS:
        for heading in (letter, "paper", "p"):
            table.add_column(heading, no_wrap=True)
    for row in sheet["rows"]:
        cells: list[str] = []
        for column in measure.columns:
            cell = row["cells"][column]
            test = test_of(cell, sheet["references"][0])
            cells += [ours(cell, measure), paper(cell), p_value(test["p_holm"]) if test else ""]
        table.add_row(*_name(row), *cells)
    return table


def _beside(sheet: Figures) -> Table:
    """What stands beside the paper's columns, means alone."""
    table = _table("#", "")
    for measure in BESIDE:
        for letter in LETTERS:
            table.add_column(f"{SHORT[measure.name]} {letter}", justify="right")
    for row in sheet["rows"]:
        means = [row["cells"][column]["mean"] for measure in BESIDE for column in measure.columns]
        table.add_row(*_name(row), *(MISSING if mean is None else f"{mean:.1f}" for mean in means))
    return table


def _sample(sample: Figures, find: Find) -> Text:
    message = find(sample["domain"], sample["index"])
    shown = Text(f"{sample['domain']} {sample['index']} ({sample['message']})", "dim")
    if message is not None:
        shown.append(f"\n> {message}", "default")
    return shown.append(f"\n< {sample['reply'] or '(nothing)'}\n", "bold")


def _name(row: Figures) -> Sequence[Text]:
    return Text(str(row["line"] or "")), Text(row["name"])


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading == "#" else "left", no_wrap=True)
    return table
