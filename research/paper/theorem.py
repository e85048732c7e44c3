"""Theorem 1 in numbers, and on models of the paper's sizes that have learned real domains."""

from typing import Any

from memgrow import Learner, __version__
from research.common.grid import Grid
from research.paper.protocol import PAIR, PROPOSED, SOURCE, Protocol
from research.paper.rows import Row
from research.theorem.report import theorem_report

TITLE = "Theorem 1: slots against hidden units"
MODELS = (Row(f"after {SOURCE}", "F", (SOURCE,)), Row(f"after {' and '.join(PAIR)}", PROPOSED, PAIR))
QUICK = {"samples": 50, "draws": 2, "examples": 20}


def theorem_figures(protocol: Protocol, grid: Grid | None) -> dict[str, Any]:
    """The figures. Models are those of the first seed, before they grow for the next domain; none without a grid."""
    settings = QUICK if protocol.scale < 1 else {}
    learners, domains, failures, keys = {}, [], [], {}
    if grid is not None:
        runs = {row.name: row.run(protocol, 0) for row in MODELS}
        outcome = grid.run(runs.values())
        learners = {
            name: Learner.load(grid.model(run), grid.device) for name, run in runs.items() if run in outcome.records
        }
        domains = [grid.stream[name] for name in PAIR]
        failures = [f"a model that has learned {', '.join(f.run.learns)}: {f.reason}" for f in outcome.failures]
        keys = {name: grid.ledger.key(run) for name, run in runs.items()}
    return {
        "table": "theorem",
        "title": TITLE,
        "made_from": {"memgrow": __version__, **settings, "models": keys},
        **theorem_report(learners, domains, **settings).to_json(),
        "failures": failures,
    }
