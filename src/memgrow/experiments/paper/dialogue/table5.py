"""Table 5: dialogue, from one domain to another, twelve ways."""

from collections.abc import Mapping
from typing import Any

from memgrow.experiments.paper.dialogue.comparing import compare, correct
from memgrow.experiments.paper.dialogue.finished import Tried, costs, losses, tried, walks
from memgrow.experiments.paper.dialogue.measures import MEASURES, TESTED
from memgrow.experiments.paper.dialogue.protocol import LETTERS, PAIR, SOURCE, TARGET, DialogueProtocol
from memgrow.experiments.paper.printed import printed
from memgrow.experiments.paper.protocol import PROPOSED, Protocol
from memgrow.experiments.paper.rows import Printed, Results, Row
from memgrow.experiments.paper.sheet import summary
from memgrow.experiments.paper.table1 import NO_MEMORY
from memgrow.experiments.reply_records import ReplyRecord

LINES: tuple[tuple[int | None, str, str, tuple[str, ...], bool], ...] = (
    # line, name, method, domains, memory
    (1, "RNN: S", "F", (SOURCE,), False),
    (2, "RNN: T", "F", (TARGET,), False),
    (3, "S", "F", (SOURCE,), True),
    (4, "T", "F", (TARGET,), True),
    (5, "S+T", "multi-task", PAIR, True),
    (6, "F", "F", PAIR, True),
    (7, "F+M", "F+M", PAIR, True),
    (8, "F+M+V", "F+M+V", PAIR, True),
    (9, "F+H", "F+H", PAIR, True),
    (10, "F+H+V", "F+H+V", PAIR, True),
    (11, "EWC", "EWC", PAIR, True),
    (12, "Progressive", "Progressive", PAIR, True),
    (None, "F+V", "F+V", PAIR, True),
)
ECHO = "echo"
NOTES = (
    f"S is {SOURCE}, T is {TARGET}. Lines 1 and 2 have no memory. F+V is not in the paper's table: it tells apart what "
    "slots and what words add. The row echo is no model: it answers with the message itself.",
    "Perplexity counts all words that a model does not know as one class, which is easy to guess: it is not comparable "
    "between models of different vocabularies, as with and without V. BLEU-2 and W2V-Sim are of words.",
    "Hidden growth (lines 9 and 10) adds as many units as come nearest to the parameters of the slots in both banks. "
    "Progressive answers with its newest head for both domains.",
    "p is from a bootstrap over examples and seeds together; with few seeds it is too small, as it then tells of the "
    "examples more than of the seeds.",
)
WITHOUT_VECTORS = "There is no W2V-Sim, as no word vectors were given for it."


def rows(protocol: Protocol) -> list[Row]:
    return [
        Row(
            name,
            method,
            learns,
            model={} if memory else NO_MEMORY,
            paper=_printed(line),
            about={"line": line, "model": "rnn+mem" if memory else "rnn"},
        )
        for line, name, method, learns, memory in LINES
    ]


def make(
    protocol: DialogueProtocol, results: Results, seeds: int, echo: Mapping[str, ReplyRecord] | None = None
) -> dict[str, Any]:
    """The figures. `echo` is how the messages themselves do as replies, by domain."""
    lines, answers = [], []
    for row in rows(protocol):
        walked = walks(row, protocol, results, seeds)
        given, held_out = tried(walked, "test"), tried(walked, "validation")
        validation = {letter: summary(losses(held_out, domain)) for letter, domain in LETTERS.items()}
        about = {"name": row.name, **row.about, "method": row.method, "learns": list(row.learns)}
        lines.append({**about, "cells": _cells(given, row.paper), "validation_loss": validation, **costs(walked)})
        answers.append(given)
    if echo is not None:
        once = {0: echo}
        lines.append({"name": ECHO, "line": None, "model": None, "cells": _cells(once, {})})
        answers.append(dict.fromkeys(range(seeds), echo))  # what says the same at every seed is compared with each
    _add_tests(lines, answers, protocol.resamples)
    columns = {measure.name: list(measure.columns) for measure in MEASURES}
    sheet = {"part": "test", "seeds": seeds, "columns": columns, "references": [PROPOSED], "rows": lines}
    notes = [*NOTES, *([] if _has_similarity(lines) else [WITHOUT_VECTORS])]
    return {"sheets": [sheet], "notes": notes}


def _cells(given: Tried, paper: Mapping[str, Printed]) -> dict[str, dict[str, Any]]:
    cells = {}
    for measure in MEASURES:
        for column, domain in measure.columns.items():
            figures = [measure.of(by_domain[domain]) for by_domain in given.values()]
            figure, arrow = paper.get(column, (None, None))
            beside = {} if figure is None else {"paper": figure, "paper_arrow": arrow}
            cells[column] = {**summary(figures, measure.digits), **beside}
    return cells


def _add_tests(lines: list[dict[str, Any]], answers: list[Tried], resamples: int) -> None:
    """Every row against the proposed one, in the columns that the paper has."""
    at = [line["name"] for line in lines].index(PROPOSED)
    family = {}
    for measure in TESTED:
        for column, domain in measure.columns.items():
            said = [
                {
                    seed: replied.scores
                    for seed, by_domain in given.items()
                    if (replied := by_domain[domain]).scores is not None and measure.of(replied) is not None
                }
                for given in answers
            ]
            for number, test in compare(said, at, measure.name, resamples).items():
                lines[number]["cells"][column]["tests"] = {PROPOSED: test}
                family[f"{number} {column}"] = test
    correct(family)


def _has_similarity(lines: list[dict[str, Any]]) -> bool:
    return any(line["cells"][f"w2v_sim_{letter}"]["values"] for line in lines for letter in LETTERS)


def _printed(line: int | None) -> dict[str, Printed]:
    return {column: tuple(figure) for column, figure in printed()["table5"].get(str(line), {}).items()}
