"""One call of `memgrow paper` for tables on dialogue: all runs first, then each table written."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from memgrow.experiments.grid import Grid, Outcome
from memgrow.experiments.paper.corpus import sizes
from memgrow.experiments.paper.dialogue.protocol import DialogueProtocol
from memgrow.experiments.paper.dialogue.tables import SEARCH, dialogue_tables, echo_of
from memgrow.experiments.paper.files import write_figures
from memgrow.experiments.paper.making import Ran, figures, run_all
from memgrow.experiments.paper.printed import printed
from memgrow.experiments.paper.protocol import Data
from memgrow.experiments.paper.tables import Table
from memgrow.experiments.run import Run

RUNS = "runs-dialogue"  # beside those on MultiNLI: a record has numbers of every reply and is much larger


@dataclass(frozen=True)
class DialogueSession:
    """Tables go to the folder `out`. `words` are the options that decided the figures, for the record."""

    protocol: DialogueProtocol
    out: Path
    grid: Grid
    words: Sequence[str] = ()
    makes: bool = True  # False: only what is in the store

    @cached_property
    def tables(self) -> dict[str, Table]:
        trial = self.grid.reply_evaluation
        return dialogue_tables(echo_of(self.grid.stream, trial) if trial else None)

    def run(self, names: Sequence[str]) -> Ran:
        return run_all([self.tables[name] for name in names], self.protocol, self._run, SEARCH)

    def table(self, name: str, ran: Ran) -> dict[str, Any]:
        """The figures of a table, as they have been written."""
        trial, vectors = self.grid.reply_evaluation, self.grid.vectors
        about = {
            "paper": printed()["source"].replace("MultiNLI", "dialogue"),
            "command": " ".join(("memgrow paper", name, *self.words)),
            "data": sizes(self.grid.stream),
            "vectors": vectors.name if vectors else None,
            "w2v": trial.vectors.name if trial and trial.vectors else None,
        }
        made = {**figures(self.tables[name], ran), **about}
        write_figures(self.out, name, made)
        return made

    def _run(self, data: Data, runs: Sequence[Run]) -> Outcome:
        return self.grid.run(runs) if self.makes else self.grid.found(runs)
