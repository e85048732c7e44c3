"""All that `memgrow paper` makes, by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from memgrow.errors import SettingsError
from memgrow.experiments.paper import beyond, conditions, rates, slots, table1, table2, table3, table4, tuning
from memgrow.experiments.paper.protocol import Protocol
from memgrow.experiments.paper.rows import Results, Row


@dataclass(frozen=True)
class Table:
    """What a table is made of: its rows say which runs it needs, `make` turns their records into figures."""

    name: str
    title: str
    rows: Callable[[Protocol], Sequence[Row]]
    make: Callable[[Protocol, Results, int], dict[str, Any]]
    seeds: int

    most: int | None = None  # seeds, however many are asked for
    apart: bool = False  # it is made when it is named, not with all

    def seeds_of(self, protocol: Protocol) -> int:
        asked = protocol.seeds or self.seeds
        return asked if self.most is None else min(asked, self.most)


TABLES = {
    table.name: table
    for table in (
        Table("table1", "Table 1: the corpus, and a BiLSTM on each genre", table1.rows, table1.make, 5),
        Table("table2", "Table 2: from fiction (S) to government (T)", table2.rows, table2.make, 10),
        Table("table3", "Table 3: five genres in turn, tested after each", table3.rows, table3.make, 5),
        Table("table4", "Table 4: after five genres", table4.rows, table4.make, 5),
        Table("slots", "Slots of each domain, on validation", slots.rows, slots.make, 3),
        Table("rates", "Learning rates, on validation", rates.rows, rates.make, 3),
        Table("tuning", "EWC's strength, on validation", tuning.rows, tuning.make, tuning.SEEDS, tuning.SEEDS),
        Table("conditions", "When do new slots help?", conditions.rows, conditions.make, 3, apart=True),
        Table("recommended", "Beyond the paper: after five genres", beyond.rows, beyond.make, 10),
    )
}
DIALOGUE = ("table5", "table6")  # on another corpus: made by a command of their own
THEOREM, PAGE, ALL = (
    "theorem",
    "page",
    "all",
)  # made without runs of the grid; from the files of others; all on MultiNLI


def named(words: Sequence[str]) -> list[str]:
    """What words of the command line ask for, each once and in the order of the registry."""
    every = [*TABLES, THEOREM]
    together = [name for name in every if name not in TABLES or not TABLES[name].apart]
    known = (*every, *DIALOGUE, PAGE, ALL)
    for word in words:
        if word not in known:
            raise SettingsError(f"there is nothing called {word!r}; there are {', '.join(known)}")
    asked = {*words, *(together if ALL in words else ())}
    if asked & set(DIALOGUE) and asked & set(every):
        raise SettingsError(
            f"{' and '.join(DIALOGUE)} are on dialogue and the others on MultiNLI: ask for them in two commands"
        )
    return [name for name in (*every, *DIALOGUE, PAGE) if name in asked]
