"""Theorem 1 in numbers, and on models of the paper's sizes that have learnt real domains."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memgrow.experiments.grid import Grid, Outcome
from memgrow.experiments.paper.protocol import PAIR, PROPOSED, SOURCE, Data, Protocol
from memgrow.experiments.paper.rows import Row
from memgrow.experiments.theorem.report import parts, theorem_report
from memgrow.learner import Learner
from memgrow.version import __version__

TITLE = "Theorem 1: slots against hidden units"
MODELS = (Row(f"after {SOURCE}", "F", (SOURCE,)), Row(f"after {' and '.join(PAIR)}", PROPOSED, PAIR))
QUICK = {"samples": 50, "draws": 2, "examples": 20}


@dataclass(frozen=True)
class TheoremTable:
    """Models are those of the first seed, just before they would grow for the next domain; none without a corpus."""

    protocol: Protocol
    grid_for: Callable[[Data, bool], Grid] | None  # the data, and whether models are kept

    @property
    def settings(self) -> dict[str, int]:
        return QUICK if self.protocol.scale < 1 else {}

    @property
    def parts(self) -> int:
        """The number of ticks of `make`."""
        draws = {"draws": self.settings["draws"]} if self.settings else {}
        return parts(len(MODELS), len(PAIR), **draws) if self.grid_for else parts(**draws)

    def made_from(self) -> dict[str, Any]:
        """The same for the same figures."""
        keys = {}
        if self.grid_for is not None:
            ledger = self.grid_for(self.protocol.data, False).ledger
            keys = {row.name: ledger.key(row.run(self.protocol, 0).stages()[-1]) for row in MODELS}
        return {"memgrow": __version__, **self.settings, "models": keys}

    def learn(self) -> Outcome | None:
        """Make the models that are not there yet, and keep them."""
        if self.grid_for is None:
            return None
        return self.grid_for(self.protocol.data, True).run(row.run(self.protocol, 0) for row in MODELS)

    def make(self, tick: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
        outcome, learners, domains = self.learn(), {}, []
        if self.grid_for is not None and outcome is not None:
            grid = self.grid_for(self.protocol.data, False)
            runs = {row.name: row.run(self.protocol, 0) for row in MODELS}
            ready = {name: run for name, run in runs.items() if run in outcome.records}
            device = "auto" if grid.device == "cuda" else "cpu"  # on a cluster, the runs may have had a GPU alone
            learners = {name: Learner.load(grid.model(run), device) for name, run in ready.items()}
            domains = [grid.stream[name] for name in PAIR]
        failures = outcome.failures if outcome is not None else ()
        return {
            "table": "theorem",
            "title": TITLE,
            "made_from": self.made_from(),
            **theorem_report(learners, domains, **self.settings, tick=tick).to_json(),
            "failures": [f"a model that has learnt {', '.join(f.run.learns)}: {f.reason}" for f in failures],
        }
