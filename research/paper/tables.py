"""The paper's tables on MultiNLI, its two searches and EWC's, and the table of all that is made there.

Each is a few rows, which say what runs it needs, and what is made of their records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from research.paper.accuracies import FIVE, S_AND_T, Columns, sheet
from research.paper.figures import Json
from research.paper.protocol import GENRES, PAIR, PROPOSED, SOURCE, TARGET, Protocol, printed
from research.paper.rows import NO_MEMORY, Printed, Results, Row
from research.paper.studies import conditions, conditions_rows, finalists, recommended, recommended_rows


@dataclass(frozen=True)
class Table:
    """A table of the paper: its rows say which runs it needs, `make` turns their records into figures."""

    name: str
    title: str
    rows: Callable[[Protocol], Sequence[Row]]
    make: Callable[[Protocol, Results, int], Json]
    seeds: int

    most: int | None = None  # seeds, however many are asked for
    apart: bool = False  # it is made when it is named, not with all

    def seeds_of(self, protocol: Protocol) -> int:
        asked = protocol.seeds or self.seeds
        return asked if self.most is None else min(asked, self.most)


# Table 1: how many pairs each genre has, and a BiLSTM without a memory trained on it alone.


def table1_rows(protocol: Protocol) -> list[Row]:
    figures = printed()["table1"]
    alone = {genre: (value, None) for genre, value in figures["bilstm"].items()}
    official = {"average": (figures["official_test"]["paper"], None)}
    return [
        Row("BiLSTM, each genre alone", "in-domain", model=NO_MEMORY, paper=alone),
        Row("BiLSTM, all genres at once", "multi-task", model=NO_MEMORY, paper=official),
    ]


def table1(protocol: Protocol, results: Results, seeds: int) -> Json:
    figures, rows = printed()["table1"], table1_rows(protocol)
    records = {genre: results.get(protocol.data, {}).get(run) for genre, run in rows[0].answering(protocol, 0).items()}
    pairs = {
        genre: {"ours": some[-1].stage["examples"] if some else None, "paper": figures["training_pairs"][genre]}
        for genre, some in records.items()
    }
    notes = (
        "The official test set has no public labels: where the paper has its accuracy there (68.37; 67.51 in the paper "
        "that introduced the corpus), ours is the mean over the five genres' test parts, which is another set.",
    )
    corpus = {"training_pairs": pairs, "yu2018": figures["yu2018"], "official_test": figures["official_test"]}
    return {**corpus, "sheets": [sheet(rows, FIVE, protocol, results, seeds)], "notes": list(notes)}


# Table 2: from one domain to another, twelve ways. Table 5 has the same lines on dialogue.

LINES: tuple[tuple[int | None, str, str, str, bool], ...] = (
    # line, name, method, domains by letter, memory
    (1, "RNN: S", "F", "S", False),
    (2, "RNN: T", "F", "T", False),
    (3, "S", "F", "S", True),
    (4, "T", "F", "T", True),
    (5, "S+T", "multi-task", "ST", True),
    (6, "F", "F", "ST", True),
    (7, "F+M", "F+M", "ST", True),
    (8, "F+M+V", "F+M+V", "ST", True),
    (9, "F+H", "F+H", "ST", True),
    (10, "F+H+V", "F+H+V", "ST", True),
    (11, "EWC", "EWC", "ST", True),
    (12, "Progressive", "Progressive", "ST", True),
    (None, "F+V", "F+V", "ST", True),
)


def lines(protocol: Protocol, paper: Callable[[str], dict[str, Printed]]) -> list[Row]:
    """The rows of Tables 2 and 5; `paper` has what is printed in a line, by column."""
    return [
        Row(
            name,
            method,
            tuple(protocol.pair[letter] for letter in letters),
            model={} if memory else NO_MEMORY,
            paper=paper(str(line)),
            about={"line": line, "model": "rnn+mem" if memory else "rnn"},
        )
        for line, name, method, letters, memory in LINES
    ]


def table2_rows(protocol: Protocol) -> list[Row]:
    def paper(line: str) -> dict[str, Printed]:
        figures = printed()["table2"].get(line, {})
        return {letter: tuple(figures[genre]) for letter, genre in protocol.pair.items() if figures}

    return lines(protocol, paper)


def table2(protocol: Protocol, results: Results, seeds: int) -> Json:
    reference = {PROPOSED: dict.fromkeys(S_AND_T, PROPOSED)}
    notes = (
        f"S is {SOURCE}, T is {TARGET}. Lines 1 and 2 have no memory, the others 500 slots a domain. "
        "F+V is not in the paper's table: it tells apart what slots and what words add.",
        "Hidden growth (lines 9 and 10) adds as many hidden units as come nearest to the parameters that slots add.",
        "Progressive answers with its newest head for both domains, as in the paper.",
    )
    made = sheet(table2_rows(protocol), S_AND_T, protocol, results, seeds, references=reference)
    return {"sheets": [made], "notes": list(notes)}


# Table 3: five domains in turn, every domain tested after each.

IN_TURN = (PROPOSED, "F+V")  # the paper has the first alone; the second is the same without slots


def table3_rows(protocol: Protocol) -> list[Row]:
    return [row for method in IN_TURN for row in _stages(method)]


def _stages(method: str) -> list[Row]:
    """One row for each stage; named for the genre that it has learned last."""
    figures = printed()["table3"] if method == PROPOSED else [()] * len(GENRES)
    return [
        Row(
            genre,
            method,
            GENRES[: number + 1],
            paper={tested: (value, None) for tested, value in zip(GENRES, figures[number], strict=False)},
        )
        for number, genre in enumerate(GENRES)
    ]


def table3(protocol: Protocol, results: Results, seeds: int) -> Json:
    learnt = {"when it was learnt": {genre: genre for genre in GENRES}}
    sheets = [
        sheet(_stages(method), FIVE, protocol, results, seeds, references=learnt, later=True, title=method)
        for method in IN_TURN
    ]
    notes = (
        "Each row is the model after one more genre. A genre's accuracy is tested against what it was when the genre "
        "had just been learnt: a difference below zero is forgetting.",
        "The paper prints 58.87 for government after fiction here, and 60.87 in line 3 of its Table 2, for the same "
        "model.",
    )
    return {"sheets": sheets, "notes": list(notes)}


# Table 4: five domains, at the end, by several methods; and a second block with methods beyond the paper.

AT_THE_END = ("in-domain", "multi-task", "F+V", "F+M+V", "EWC", "Progressive")


def table4_rows(protocol: Protocol) -> list[Row]:
    return [*map(_printed_in_table4, AT_THE_END), *finalists()]


def _printed_in_table4(method: str) -> Row:
    figures = {genre: tuple(figure) for genre, figure in printed()["table4"][method].items()}
    mean = sum(value for value, _ in figures.values()) / len(figures)
    return Row(method, method, paper={**figures, "average": (round(mean, 2), None)})


def table4(protocol: Protocol, results: Results, seeds: int) -> Json:
    reference = {PROPOSED: dict.fromkeys(FIVE, PROPOSED)}
    notes = (
        "The average is the mean of the five genres, tested on their test parts together. The paper does not print it: "
        "the one beside ours is the mean of its figures.",
        "In-domain has five models and multi-task sees all data at once: neither is incremental. The others learn the "
        "genres in the order of the columns. Progressive answers with its newest head.",
    )
    made = sheet(table4_rows(protocol), FIVE, protocol, results, seeds, references=reference)
    return {"sheets": [made], "notes": list(notes)}


# Searches over the values of one setting, on the validation parts of two domains.

SEARCHED: Columns = {**S_AND_T, "average": PAIR}


def search(rows: Sequence[Row], protocol: Protocol, results: Results, seeds: int, reference: str | None = None) -> Json:
    """Validation accuracies; rows may be tested against one."""
    references = {reference: dict.fromkeys(S_AND_T, reference)} if reference else {}
    return sheet(rows, SEARCHED, protocol, results, seeds, references=references, part="validation")


def best(made: Json, at_least: int | None = None) -> float | None:
    """The value whose mean over S and T is highest; the first of equals.

    No value is called best until all have all their runs; with `at_least`, until this many have any run.
    """
    cells = {line["value"]: line["cells"]["average"] for line in made["rows"]}
    runs = made["seeds"] if at_least is None else 1
    known = {value: cell["mean"] for value, cell in cells.items() if len(cell["values"]) >= runs and cell["values"]}
    enough = len(known) >= (len(cells) if at_least is None else at_least)
    return max(known, key=lambda value: known[value], default=None) if enough else None


def slots_rows(protocol: Protocol) -> list[Row]:
    figures = printed()["slots"]
    return [
        Row(
            str(protocol.scaled(slots)),
            PROPOSED,
            PAIR,
            model={"slots": slots},
            paper={column: (value, None) for column, value in zip(S_AND_T, figures.get(str(slots), ()), strict=False)},
            about={"value": protocol.scaled(slots)},
        )
        for slots in protocol.slots
    ]


def slots(protocol: Protocol, results: Results, seeds: int) -> Json:
    rows = slots_rows(protocol)
    made = search(rows, protocol, results, seeds, reference=rows[-1].name)
    notes = (
        "Validation accuracy of F+M+V. The first domain's bank and the one that the second domain adds have that "
        "number of slots each. Tests are against the most slots.",
    )
    return {"sheets": [made], "chosen": best(made), "notes": list(notes)}


def rates_rows(protocol: Protocol) -> list[Row]:
    return [Row(f"{rate:g}", PROPOSED, PAIR, training={"rate": rate}, about={"value": rate}) for rate in protocol.rates]


def rates(protocol: Protocol, results: Results, seeds: int) -> Json:
    chosen = printed()["rates"]["chosen"]
    made = search(rates_rows(protocol), protocol, results, seeds, reference=f"{chosen:g}")
    notes = (
        "Validation accuracy of F+M+V. The rate is Adam's, and the same for both domains. The paper names the rates "
        "that it tried and the one that it chose, but no figures. Tests are against that one.",
    )
    return {"sheets": [made], "chosen": best(made), "paper_chose": chosen, "notes": list(notes)}


TUNING_SEEDS = 3  # the first of all


def tuning_rows(protocol: Protocol) -> list[Row]:
    """EWC, as strongly as it may hold on to old weights."""
    learns = tuple(protocol.pair.values())
    return [
        Row(f"{strength:g}", "EWC", learns, options={"strength": strength}, about={"value": strength})
        for strength in protocol.strengths
    ]


def tuning(protocol: Protocol, results: Results, seeds: int) -> Json:
    made = search(tuning_rows(protocol), protocol, results, seeds)
    notes = (
        "Validation accuracy of EWC. The strength with the best mean of S and T is used in all tables, those of five "
        "domains too.",
    )
    # Tables go on where some strengths have failed, but one by itself is no choice.
    return {"sheets": [made], "chosen": best(made, at_least=2), "notes": list(notes)}


TABLES = {
    table.name: table
    for table in (
        Table("table1", "Table 1: the corpus, and a BiLSTM on each genre", table1_rows, table1, 5),
        Table("table2", "Table 2: from fiction (S) to government (T)", table2_rows, table2, 10),
        Table("table3", "Table 3: five genres in turn, tested after each", table3_rows, table3, 5),
        Table("table4", "Table 4: after five genres", table4_rows, table4, 5),
        Table("slots", "Slots of each domain, on validation", slots_rows, slots, 3),
        Table("rates", "Learning rates, on validation", rates_rows, rates, 3),
        Table("tuning", "EWC's strength, on validation", tuning_rows, tuning, TUNING_SEEDS, TUNING_SEEDS),
        Table("conditions", "When do new slots help?", conditions_rows, conditions, 3, apart=True),
        Table("recommended", "Beyond the paper: after five genres", recommended_rows, recommended, 10),
    )
}
