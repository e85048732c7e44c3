"""From the tables that are asked for to all their runs, made once, and from the records to figures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memgrow import __version__
from memgrow.experiments.grid import Failure, Outcome
from memgrow.experiments.paper.printed import printed
from memgrow.experiments.paper.protocol import Data, Protocol
from memgrow.experiments.paper.rows import wanted
from memgrow.experiments.paper.tables import TABLES, Table
from memgrow.experiments.run import Record, Run

Runner = Callable[[Data, Sequence[Run]], Outcome]
"""Makes runs on the data that is asked for; what was made before comes out of a store."""


@dataclass
class Ran:
    """The records of all runs, the strength that was chosen for EWC on the way, and what failed."""

    protocol: Protocol
    results: dict[Data, dict[Run, Sequence[Record]]] = field(default_factory=dict)
    failures: dict[tuple[Data, Run], Failure] = field(default_factory=dict)
    tuned: dict[str, Any] | None = None

    def take(self, data: Data, outcome: Outcome) -> None:
        self.results.setdefault(data, {}).update(outcome.records)
        self.failures |= {(data, failure.run): failure for failure in outcome.failures}


def run_all(tables: Sequence[Table], protocol: Protocol, runner: Runner, search: Table = TABLES["tuning"]) -> Ran:
    """All runs of the tables at once, so that they share their stages; what waits for EWC's strength, behind that.

    `search` is the table that chooses the strength.
    """
    ran = Ran(protocol)
    waiting = [table for table in tables if any(row.waits(protocol) for row in table.rows(protocol))]
    asked = dict.fromkeys([*tables, search] if waiting else tables)
    _run(_wanted(asked, protocol), ran, runner)
    if waiting:
        ran.tuned = search.make(protocol, ran.results, search.seeds_of(protocol))
        # Should the whole search have failed, the tables' rows are tried all the same, with what is the default.
        strength = ran.tuned["chosen"] or protocol.options.strength
        ran.protocol = replace(protocol, strength=float(strength))
        _run(_wanted(waiting, ran.protocol), ran, runner)
    return ran


def figures(table: Table, ran: Ran) -> dict[str, Any]:
    """What is written of a table, but for what only the command line knows."""
    protocol, seeds = ran.protocol, table.seeds_of(ran.protocol)
    needed = set(wanted(table.rows(protocol), protocol, seeds))
    elastic = any(row.waits(replace(protocol, strength=None)) for row in table.rows(protocol))
    made = table.make(protocol, ran.results, seeds)
    return {
        "table": table.name,
        "title": table.title,
        "memgrow": __version__,
        "paper": printed()["source"],
        "seeds": seeds,
        "protocol": protocol.to_json(),
        **({"strength": told_strength(ran)} if elastic and ran.tuned else {}),
        **made,
        "failures": told((key[0], failure) for key, failure in ran.failures.items() if key in needed),
    }


def told_strength(ran: Ran) -> dict[str, Any]:
    """EWC's strength, and what it was chosen from."""
    tried = {line["name"]: line["cells"]["average"]["mean"] for line in (ran.tuned or {})["sheets"][0]["rows"]}
    return {"chosen": ran.protocol.strength, "validation_average": tried}


def told(failures: Iterable[tuple[Data, Failure]]) -> list[str]:
    """A sentence for all seeds of a run that failed for one reason."""
    alike: dict[tuple[Data, Run, str], list[int]] = {}
    for data, failure in failures:
        alike.setdefault((data, replace(failure.run, seed=0), failure.reason), []).append(failure.run.seed)
    return [
        f"{run.method} on {', '.join(run.learns)}{_amount(data)}, "
        f"seed{'s' if len(seeds) > 1 else ''} {_listed(seeds)}: {reason}"
        for (data, run, reason), seeds in alike.items()
    ]


def _amount(data: Data) -> str:
    """How the data differ from all that there are."""
    limit = f" ({data.limit:,} pairs of each)" if data.limit else ""
    return f"{limit} with guessed genres" if data.extra else limit


def _listed(seeds: Sequence[int]) -> str:
    """0 to 9 where none is missing, else each."""
    whole = len(seeds) > 2 and sorted(seeds) == list(range(min(seeds), max(seeds) + 1))
    return f"{min(seeds)} to {max(seeds)}" if whole else ", ".join(map(str, sorted(seeds)))


def _wanted(tables: Iterable[Table], protocol: Protocol) -> dict[Data, list[Run]]:
    runs: dict[Data, dict[Run, None]] = {}
    for table in tables:
        for data, run in wanted(table.rows(protocol), protocol, table.seeds_of(protocol)):
            runs.setdefault(data, {})[run] = None
    return {data: list(some) for data, some in runs.items()}


def _run(runs: Mapping[Data, Sequence[Run]], ran: Ran, runner: Runner) -> None:
    for data, some in runs.items():
        known = ran.results.get(data, {})
        if missing := [run for run in some if run not in known and (data, run) not in ran.failures]:
            ran.take(data, runner(data, missing))
