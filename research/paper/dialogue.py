"""The paper's second task, dialogue: from films' lines to a help channel, Table 5 and the samples of Table 6."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import exp

from memgrow.data import Stream
from research.common.replies import ReplyEvaluation, ReplyRecord, ReplyScores, perplexity
from research.paper import figures
from research.paper.accuracies import At, corrected, line
from research.paper.dialogue_tests import compare
from research.paper.figures import Json, cell, summary
from research.paper.protocol import DIALOGUE, DIALOGUES, PROPOSED, Protocol, printed
from research.paper.rows import Finished, Printed, Results, Row
from research.paper.tables import TUNING_SEEDS, Table, lines, tuning_rows

Replies = Mapping[int, Mapping[str, ReplyRecord]]
"""By seed and domain, what a row's models replied to one part of the data."""

SOURCE, TARGET = DIALOGUES
LETTERS = DIALOGUE.pair
SEEDS = 3
ECHO = "echo"


@dataclass(frozen=True)
class Measure:
    """A figure of the replies to one domain's test messages; None where what it needs is not there."""

    name: str
    title: str
    digits: int  # that are kept
    of: Callable[[ReplyRecord], float | None]

    @property
    def columns(self) -> dict[str, str]:
        """The domain of each of its columns."""
        return {f"{self.name}_{letter}": domain for letter, domain in LETTERS.items()}


def _of_scores(figure: Callable[[ReplyScores], float | None]) -> Callable[[ReplyRecord], float | None]:
    return lambda record: None if record.scores is None else figure(record.scores)


def _loss(record: ReplyRecord) -> float | None:
    """Nats to a token."""
    if record.loss is None or record.tokens is None or not record.tokens.sum():
        return None
    return float(record.loss.sum() / record.tokens.sum())


def _perplexity(record: ReplyRecord) -> float | None:
    if _loss(record) is None or record.loss is None or record.tokens is None:
        return None
    return perplexity(record.loss, record.tokens)


def _similarity(scores: ReplyScores) -> float | None:
    return None if scores.similarity is None else float(scores.similarity.mean())


TESTED = (
    Measure("bleu2", "BLEU-2", 3, _of_scores(lambda scores: scores.counts.score())),
    Measure("w2v_sim", "W2V-Sim", 4, _of_scores(_similarity)),
)
BESIDE = (
    Measure("perplexity", "perplexity", 2, _perplexity),
    Measure("distinct1", "distinct-1, %", 2, _of_scores(lambda scores: 100 * scores.distinct[0])),
    Measure("distinct2", "distinct-2, %", 2, _of_scores(lambda scores: 100 * scores.distinct[1])),
    Measure("length", "words", 2, _of_scores(lambda scores: float(scores.counts.totals[:, 0].mean()))),
)
MEASURES = (*TESTED, *BESIDE)


# Table 5: the lines of Table 2, on dialogue.


def table5_rows(protocol: Protocol) -> list[Row]:
    def paper(line: str) -> dict[str, Printed]:
        return {column: tuple(figure) for column, figure in printed()["table5"].get(line, {}).items()}

    return lines(protocol, paper)


def table5(protocol: Protocol, results: Results, seeds: int, echo: Mapping[str, ReplyScores] | None = None) -> Json:
    """The figures. `echo` is how the messages themselves do as replies, by domain."""
    rows = table5_rows(protocol)
    finished = [row.finished(protocol, results, seeds) for row in rows]
    replied = [_replies(some, "test") for some in finished]
    lines = [
        line(row, _cells(replied[number], row.paper), finished[number], {}, validation_loss=_loss_of(finished[number]))
        for number, row in enumerate(rows)
    ]
    if echo is not None:
        echoed = {name: ReplyRecord(scores=scores) for name, scores in echo.items()}
        lines.append({"name": ECHO, "line": None, "model": None, "cells": _cells({0: echoed}, {})})
        replied.append(dict.fromkeys(range(seeds), echoed))  # what says the same at every seed is compared with each
    at = [one["name"] for one in lines].index(PROPOSED)
    for (number, column), test in _tests(at, replied, protocol.replies.resamples).items():
        lines[number]["cells"][column]["tests"] = {PROPOSED: test}
    columns = {measure.name: list(measure.columns) for measure in MEASURES}
    has_similarity = any(one["cells"][f"w2v_sim_{letter}"]["values"] for one in lines for letter in LETTERS)
    notes = (
        f"S is {SOURCE}, T is {TARGET}. Lines 1 and 2 have no memory. F+V is not in the paper's table: it tells apart "
        "what slots and what words add. The row echo is no model: it answers with the message itself.",
        "Perplexity counts all words that a model does not know as one class, which is easy to guess: it is not "
        "comparable between models of different vocabularies, as with and without V. BLEU-2 and W2V-Sim are of words.",
        "Hidden growth (lines 9 and 10) adds as many units as come nearest to the parameters of the slots in both "
        "banks. Progressive answers with its newest head for both domains.",
        "p is from a bootstrap over examples and seeds together; with few seeds it is too small, as it then tells of "
        "the examples more than of the seeds.",
        *(() if has_similarity else ("There is no W2V-Sim, as no word vectors were given for it.",)),
    )
    return {"sheets": [figures.sheet("test", seeds, columns, [PROPOSED], lines)], "notes": list(notes)}


def echo_of(stream: Stream, evaluation: ReplyEvaluation) -> dict[str, ReplyScores]:
    """Every test message as the reply to itself. Its words are the corpus's, so none of them is kept."""
    examples = {domain.name: domain.test for domain in stream}
    without_samples = ReplyEvaluation(samples=0, vectors=evaluation.vectors)
    messages = {name: [example.text for example in some] for name, some in examples.items()}
    return without_samples.score(examples, messages)


def _replies(finished: Sequence[Finished], part: str) -> Replies:
    """The replies of the models as they are at the end."""
    return {one.seed: one.stages[-1].replies[part] for one in finished}


def _losses(replied: Replies, domain: str) -> list[float | None]:
    """Nats to a token, by seed."""
    return [_loss(by_domain[domain]) for by_domain in replied.values()]


def _loss_of(finished: Sequence[Finished]) -> Json:
    """The validation loss on each domain, in nats to a token."""
    replied = _replies(finished, "validation")
    return {letter: summary(_losses(replied, domain)) for letter, domain in LETTERS.items()}


def _cells(replied: Replies, paper: Mapping[str, Printed]) -> dict[str, Json]:
    return {
        column: cell(
            summary((measure.of(by_domain[domain]) for by_domain in replied.values()), measure.digits),
            paper.get(column),
        )
        for measure in MEASURES
        for column, domain in measure.columns.items()
    }


def _tests(at: int, replied: Sequence[Replies], resamples: int) -> dict[At, Json]:
    """Every row against the one at `at`, in the columns that the paper has."""
    found: dict[At, Json] = {}
    for measure in TESTED:
        for column, domain in measure.columns.items():
            scores = [
                {
                    seed: record.scores
                    for seed, by_domain in given.items()
                    if (record := by_domain[domain]).scores is not None and measure.of(record) is not None
                }
                for given in replied
            ]
            tests = compare(scores, at, measure.name, resamples)
            found |= {(number, column): test for number, test in tests.items()}
    return corrected(found)


# Table 6: what the proposed method replies to messages of both domains, chosen by rule and not by hand.


def table6_rows(protocol: Protocol) -> list[Row]:
    return [Row(PROPOSED, PROPOSED, DIALOGUES)]


def table6(protocol: Protocol, results: Results, seeds: int) -> Json:
    (row,) = table6_rows(protocol)
    replied = _replies(row.finished(protocol, results, seeds), "test").get(0, {})
    scores = {name: replied[name].scores for name in DIALOGUES if name in replied}
    samples = [
        {"domain": name, **asdict(one)} for name, some in scores.items() if some is not None for one in some.samples
    ]
    notes = (
        f"Replies by {PROPOSED}, seed 0, once it has learnt both domains, to test messages at even distances from the "
        "first on. A message is given by its number in the test part, from 0, and the start of its SHA-256: its text "
        "stays with the corpus.",
    )
    return {"samples": samples, "notes": list(notes)}


# How strongly EWC holds on to old weights in dialogue.


def tuning(protocol: Protocol, results: Results, seeds: int) -> Json:
    """Validation perplexities; the average is their geometric mean, and the strength with the lowest is chosen."""
    lines = [_tried(row, protocol, results, seeds) for row in tuning_rows(protocol)]
    known = {one["value"]: mean for one in lines if (mean := one["cells"]["average"]["mean"]) is not None}
    chosen = min(known, key=lambda value: known[value], default=None)
    return {
        "sheets": [figures.sheet("validation", seeds, [*LETTERS, "average"], [], lines)],
        "chosen": chosen,
        "notes": [],
    }


def _tried(row: Row, protocol: Protocol, results: Results, seeds: int) -> Json:
    replied = _replies(row.finished(protocol, results, seeds), "validation")
    by_letter = {letter: _losses(replied, domain) for letter, domain in LETTERS.items()}
    seeded = [[value for value in both if value is not None] for both in zip(*by_letter.values(), strict=True)]
    cells = {letter: summary(None if x is None else exp(x) for x in some) for letter, some in by_letter.items()}
    cells["average"] = summary(exp(sum(both) / len(both)) for both in seeded if both)
    return {"name": row.name, **row.about, "cells": cells}


TUNING = Table("tuning", "EWC's strength in dialogue", tuning_rows, tuning, TUNING_SEEDS, TUNING_SEEDS)


def dialogue_tables(echo: Mapping[str, ReplyScores] | None = None) -> dict[str, Table]:
    """All of them; `echo` is how the messages themselves do as replies."""
    five = partial(table5, echo=echo)
    tables = (
        Table("table5", "Table 5: dialogue, from films (S) to a help channel (T)", table5_rows, five, SEEDS),
        Table("table6", "Table 6: replies to messages chosen by rule", table6_rows, table6, 1, 1),
    )
    return {table.name: table for table in tables}
