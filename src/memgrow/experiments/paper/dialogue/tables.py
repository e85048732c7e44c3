"""The tables on dialogue by name, and the search that Table 5 waits for."""

from collections.abc import Mapping
from functools import partial

from memgrow.data import Stream
from memgrow.experiments.paper.dialogue import table5, table6, tuning
from memgrow.experiments.paper.tables import Table
from memgrow.experiments.reply_records import ReplyEvaluation, ReplyRecord

SEEDS = 3
SEARCH = Table("tuning", "EWC's strength in dialogue", tuning.rows, tuning.make, tuning.SEEDS, tuning.SEEDS)


def dialogue_tables(echo: Mapping[str, ReplyRecord] | None = None) -> dict[str, Table]:
    """All of them; `echo` is how the messages themselves do as replies."""
    first = partial(table5.make, echo=echo)
    tables = (
        Table("table5", "Table 5: dialogue, from films (S) to a help channel (T)", table5.rows, first, SEEDS),
        Table("table6", "Table 6: replies to messages chosen by rule", table6.rows, table6.make, 1, 1),
    )
    return {table.name: table for table in tables}


def echo_of(stream: Stream, trial: ReplyEvaluation) -> dict[str, ReplyRecord]:
    """Every test message as the reply to itself. Its words are the corpus's, so none of them is kept."""
    examples = {domain.name: domain.test for domain in stream}
    silent = ReplyEvaluation(samples=0, vectors=trial.vectors)
    said = silent.score(examples, {name: [example.text for example in some] for name, some in examples.items()})
    return {name: ReplyRecord(scores=some) for name, some in said.items()}
