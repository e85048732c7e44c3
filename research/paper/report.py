"""The paper's tables in Markdown: our figures beside the paper's, with tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from research.common.files import counted
from research.common.tables import MISSING, Table, p_value, signed, to_page
from research.paper.dialogue import BESIDE, LETTERS, TESTED, Measure
from research.paper.figures import Json

ARROWS = {"DOWN": "⇓", "down": "↓", "up": "↑", "UP": "⇑"}
SHORT = {"fiction": "Fic", "government": "Gov", "slate": "Slate", "telephone": "Tel", "travel": "Travel"}
LEGEND = (
    "Accuracy in %, mean ± standard deviation over seeds. Arrows: the paper's test, on the first seed (⇓ ⇑ p < 0.01, "
    "↓ ↑ p < 0.05; down is worse than the reference). p: two-sided over seeds and examples, Holm's correction."
)
DIALOGUE_LEGEND = (
    "Mean ± standard deviation over seeds. Arrows: the paper's test against F+M+V, on the first seed (⇓ ⇑ p < 0.01, "
    "↓ ↑ p < 0.05; down is worse). p: two-sided, from a bootstrap over examples and seeds, Holm's correction."
)
MEASURES = {
    "validation": "validation, %",
    "forgetting": "forgetting, points",
    "epochs": "epochs",
    "seconds": "seconds",
}
BESIDE_OURS = ", the paper's in brackets"
DIGITS = {"bleu2": 2, "w2v_sim": 3}  # that are shown
TROUBLE = str.maketrans({"`": "'", "<": "&lt;"})  # what Markdown would take for its own

Find = Callable[[str, int], str | None]
"""The message of that number in a domain's test part."""


# Cells


def mean_and_spread(summary: Json, digits: int = 1) -> str:
    """Mean and, of several seeds, spread."""
    if summary["mean"] is None:
        return MISSING
    mean = f"{summary['mean']:.{digits}f}".replace("-", "−")
    return mean + ("" if summary["spread"] is None else f" ± {summary['spread']:.{digits}f}")


def printed(cell: Json, digits: int = 2) -> str:
    """The paper's own figure in brackets, with its arrow."""
    return f" ({cell['paper']:.{digits}f}{ARROWS.get(cell['paper_arrow'] or '', '')})" if "paper" in cell else ""


def difference(test: Json, digits: int = 1) -> str:
    """Above or below the reference, with the 95% interval."""
    middle, low, high = (signed(test[name], digits) for name in ("difference", "low", "high"))
    return middle if test["low"] is None else f"{middle} [{low}, {high}]"


def in_full(cell: Json, reference: str, digits: int = 1) -> str:
    """A test, all of it: the arrows are of how many seeds."""
    if (test := _test(cell, reference)) is None:
        return ""
    arrows = ", ".join(f"{count} {ARROWS.get(name, 'none')}" for name, count in test["arrows"].items())
    return f"{difference(test, digits)}, {p_value(test['p_holm'])}; {arrows}"


def _test(cell: Json, reference: str) -> Json | None:
    found: Json | None = cell.get("tests", {}).get(reference)
    return found


def _arrow(cell: Json, references: Sequence[str]) -> str:
    """Against the reference that arrows are about: the first."""
    test = _test(cell, next(iter(references), ""))
    return ARROWS.get((test and test["arrow"]) or "", "")


def _number(line: Json) -> str:
    """The number of its line in the paper's table."""
    return str(line.get("line") or "")


# MultiNLI


def paper_markdown(figures: Json) -> str:
    """One of the tables on MultiNLI."""
    return to_page(_page(figures))


def _page(figures: Json) -> Iterator[Table | str]:
    if "training_pairs" in figures:
        yield _pairs(figures)
    for name, study in figures.get("studies", {}).items():
        yield f"**{name}**: {study['about']} ({figures['seeds']} seeds; {' → '.join(study['learns'])})"
        yield _study(study)
    for sheet in figures.get("sheets", ()):
        title = f"{sheet['title']}: " if "title" in sheet else ""
        yield from _whole(sheet, title)
        if sheet["part"] == "test":
            yield _measures(sheet, f"{title}what it forgot and cost, mean ± standard deviation")
    yield from _sentences(figures)
    yield from _end(figures)


def _sentences(figures: Json) -> Iterator[str]:
    if "strength" in figures:
        tried = figures["strength"]["validation_average"]
        listed = ", ".join(f"{strength} ({mean or MISSING})" for strength, mean in tried.items())
        yield f"EWC's strength is {figures['strength']['chosen']:g}; tried, with the validation average: {listed}."
    if "chosen" in figures:
        paper = f"; the paper chose {figures['paper_chose']:g}" if "paper_chose" in figures else ""
        chosen = figures["chosen"]
        yield f"Best on validation: {MISSING if chosen is None else f'{chosen:g}'}{paper}."
    if "best_on_validation" in figures:
        yield f"Best on validation without old data: {figures['best_on_validation'] or MISSING}."


def _end(figures: Json) -> Iterator[str]:
    """The notes, what is missing, and the command."""
    yield from figures["notes"]
    yield from (f"Missing: {failure}" for failure in figures["failures"])
    seeds = "one seed" if figures["seeds"] == 1 else counted(figures["seeds"], "seed")
    yield f"From `{figures['command']}`, {seeds}."


def _whole(sheet: Json, title: str) -> Iterator[Table]:
    """Ours and the paper's, and a table of all tests against each reference."""
    rows, columns, references = sheet["rows"], sheet["columns"], sheet["references"]
    numbered = any(map(_number, rows))
    beside = any("paper" in cell for line in rows for cell in line["cells"].values())

    def name(line: Json) -> list[str]:
        return [*([_number(line)] if numbered else []), line["name"]]

    def header(columns: Sequence[str]) -> list[str]:
        return [*(["#"] if numbered else []), "row", *(SHORT.get(column, column) for column in columns)]

    def shown(cell: Json) -> str:
        return f"{mean_and_spread(cell)}{_arrow(cell, references)}{printed(cell)}"

    yield Table(
        f"{title}{sheet['part']} accuracy{BESIDE_OURS if beside else ''}",
        [*header(columns), "seeds"],
        [
            [
                *name(line),
                *(shown(line["cells"][column]) for column in columns),
                str(max(len(cell["values"]) for cell in line["cells"].values())),
            ]
            for line in rows
        ],
    )
    for reference in references:
        lines = [line for line in rows if any(_test(cell, reference) for cell in line["cells"].values())]
        tested = [column for column in columns if any(_test(line["cells"][column], reference) for line in lines)]
        yield Table(
            f"{title}against {reference}: difference in points [95% interval], p; arrows by seed",
            header(tested),
            [[*name(line), *(in_full(line["cells"][column], reference) for column in tested)] for line in lines],
        )


def _measures(sheet: Json, title: str) -> Table:
    """The columns of forgetting and cost."""
    rows = [
        [
            line["name"],
            *(mean_and_spread(line[name]) for name in MEASURES),
            MISSING if line["parameters"] is None else f"{line['parameters']:,}",
        ]
        for line in sheet["rows"]
    ]
    return Table(title, ["row", *MEASURES.values(), "parameters"], rows)


def _study(study: Json) -> Table:
    """A line for each point: the methods' averages, and by how much the second is above the first."""
    base, grown = study["methods"][:2]
    header = ["condition", *study["methods"], f"{grown} above {base}", "p", "earlier domains", "last domain"]
    rows = []
    for sheet in study["sheets"]:
        cells = {line["name"]: line["cells"] for line in sheet["rows"]}
        average, earlier, last = (_test(cells[grown][column], base) for column in ("average", "earlier", "last"))
        rows.append(
            [
                sheet["title"],
                *(mean_and_spread(cells[method]["average"]) for method in study["methods"]),
                difference(average) if average else MISSING,
                p_value(average["p_holm"]) if average else MISSING,
                *(signed(test["difference"] if test else None) for test in (earlier, last)),
            ]
        )
    return Table(None, header, rows)


def _pairs(figures: Json) -> Table:
    pairs, genres = figures["training_pairs"], list(figures["training_pairs"])

    def row(name: str, counts: Sequence[int | None]) -> list[str]:
        return [name, *(MISSING if count is None else f"{count:,}" for count in counts)]

    rows = [
        row("training pairs", [pairs[genre]["ours"] for genre in genres]),
        row("training pairs, paper", [pairs[genre]["paper"] for genre in genres]),
    ]
    if data := figures.get("data"):
        rows += [row(f"{part} pairs", [data[genre][part] for genre in genres]) for part in ("validation", "test")]
    rows.append(["Yu et al. (2018), %", *(f"{figures['yu2018'][genre]:.1f}" for genre in genres)])
    return Table(None, ["figure", *(SHORT[genre] for genre in genres)], rows)


# Dialogue


def dialogue_markdown(figures: Json, find: Find = lambda domain, index: None) -> str:
    """One of the tables on dialogue; `find` looks up messages, which are kept nowhere."""
    return to_page(_dialogue_page(figures, find))


def _dialogue_page(figures: Json, find: Find) -> Iterator[Table | str]:
    for sheet in figures.get("sheets", ()):
        yield DIALOGUE_LEGEND
        yield from _replies(sheet)
        yield _beside(sheet)
    if samples := figures.get("samples"):
        rows = [
            [
                one["domain"],
                str(one["index"]),
                find(one["domain"], one["index"]) or one["message"],
                one["reply"].translate(TROUBLE),
            ]
            for one in samples
        ]
        yield Table(None, ["domain", "number", "message (SHA-256)", "reply"], rows)
    if "strength" in figures:
        tried: Mapping[str, float | None] = figures["strength"]["validation_average"]
        listed = ", ".join(f"{name} ({MISSING if mean is None else f'{mean:.1f}'})" for name, mean in tried.items())
        yield (
            f"EWC's strength is {figures['strength']['chosen']:g}, by validation perplexity (geometric mean of S and "
            f"T): {listed}."
        )
    yield from _end(figures)


def _replies(sheet: Json) -> Iterator[Table]:
    """Ours and the paper's, and all tests, of the measures that any row has a figure of."""
    rows = sheet["rows"]
    measures = [m for m in TESTED if any(line["cells"][column]["values"] for line in rows for column in m.columns)]
    columns = [(measure, column) for measure in measures for column in measure.columns]
    header = ["#", "row", *(f"{measure.title} {letter}" for measure in measures for letter in LETTERS)]
    (reference,) = sheet["references"]

    def shown(cell: Json, measure: Measure) -> str:
        ours = f"{mean_and_spread(cell, DIGITS[measure.name])} {_arrow(cell, [reference])}".rstrip()
        return ours + printed(cell, 3)

    yield Table(
        "Test figures, the paper's in brackets",
        header,
        [[_number(line), line["name"], *(shown(line["cells"][column], m) for m, column in columns)] for line in rows],
    )
    yield Table(
        f"Against {reference}: difference [95% interval], p; arrows by seed",
        header,
        [
            [
                _number(line),
                line["name"],
                *(in_full(line["cells"][column], reference, DIGITS[m.name]) for m, column in columns),
            ]
            for line in rows
            if line["name"] != reference
        ],
    )


def _beside(sheet: Json) -> Table:
    """The columns that the paper does not have."""
    columns = [column for measure in BESIDE for column in measure.columns]
    header = [f"{measure.title} {letter}" for measure in BESIDE for letter in LETTERS]
    rows = [
        [
            _number(line),
            line["name"],
            *(mean_and_spread(line["cells"][column]) for column in columns),
            f"{line['parameters']:,}" if line.get("parameters") else MISSING,
        ]
        for line in sheet["rows"]
    ]
    return Table("Beside them", ["#", "row", *header, "parameters"], rows)
