"""One call of `memgrow paper`: all runs first, then each table written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memgrow.experiments.paper.corpus import sizes
from memgrow.experiments.paper.files import read_figures, with_earlier_studies, write_figures
from memgrow.experiments.paper.making import Ran, figures, run_all
from memgrow.experiments.paper.protocol import Protocol
from memgrow.experiments.paper.tables import TABLES, THEOREM
from memgrow.experiments.paper.theorem import TheoremTable
from memgrow.experiments.paper.workshop import Workshop


@dataclass(frozen=True)
class Session:
    """Tables go to the folder `out`. `words` are the options that decided the figures, for the record."""

    protocol: Protocol
    out: Path
    workshop: Workshop | None  # None: there is no corpus, only the theorem can be had
    words: Sequence[str] = ()

    def run(self, names: Sequence[str]) -> Ran:
        """The runs of all that is named together, so that they share their stages."""
        if THEOREM in names and self._theorem_before() is None:
            TheoremTable(self.protocol, self.workshop).learn()
        tables = [TABLES[name] for name in names if name in TABLES]
        if not tables or self.workshop is None:
            return Ran(self.protocol)
        return run_all(tables, self.protocol, self.workshop.run)

    def table(self, name: str, ran: Ran) -> dict[str, Any]:
        """The figures of a table, as they have been written."""
        about: dict[str, Any] = {"command": self._command(name)}
        if self.workshop is not None:
            about["data"] = sizes(self.workshop.corpus.stream(ran.protocol.data))
            about["vectors"] = self.workshop.vectors.name if self.workshop.vectors else None
        made = {**figures(TABLES[name], ran), **about}
        made = with_earlier_studies(made, read_figures(self.out, name))
        write_figures(self.out, name, made)
        return made

    def theorem_parts(self) -> int:
        """How often `theorem` ticks."""
        return TheoremTable(self.protocol, self.workshop).parts

    def theorem(self, tick: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
        """The theorem's figures, made anew only if they would be others."""
        made = self._theorem_before() or TheoremTable(self.protocol, self.workshop).make(tick)
        made = {**made, "command": self._command(THEOREM)}
        write_figures(self.out, THEOREM, made)
        return made

    def _theorem_before(self) -> dict[str, Any] | None:
        """What an earlier command found, if it holds still."""
        before = read_figures(self.out, THEOREM)
        if before is None or before.get("failures"):
            return None
        return before if before.get("made_from") == TheoremTable(self.protocol, self.workshop).made_from() else None

    def _command(self, name: str) -> str:
        return " ".join(("memgrow paper", name, *self.words))
