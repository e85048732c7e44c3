"""One call of `python -m research.paper`: all runs first, each made once, then every table written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from memgrow import __version__
from memgrow.errors import SettingsError
from research.common.corpora import sizes_of
from research.common.grid import Failure, Grid, Outcome, outcome_of
from research.common.replies import ReplyEvaluation, ReplyScores
from research.common.runs import Record, Run
from research.common.store import Ledger, Store
from research.paper.corpora import Corpus, Known, Memory
from research.paper.dialogue import TUNING, dialogue_tables, echo_of
from research.paper.figures import Json, read_figures, write_figures
from research.paper.protocol import Data, Protocol, printed
from research.paper.rows import Results, wanted
from research.paper.tables import TABLES, Table
from research.paper.theorem import theorem_figures

DIALOGUE = tuple(dialogue_tables())  # on another corpus than all others
THEOREM = "theorem"  # needs no runs but of two models
PAGE = "page"  # made from the files of the tables
ALL = "all"  # on MultiNLI, but for tables that stand apart
FINE = 10**9  # steps to a cosine of 1, of scores that tables are made from directly
RUNS = {"multinli": "runs", "dialogue": "runs-dialogue"}  # folders: a record of replies is much larger

MakeRuns = Callable[[Data, Sequence[Run]], Outcome]
"""Makes runs on the data that is asked for; what was made before comes out of a store."""


def named(words: Sequence[str]) -> list[str]:
    """The tables that words of the command line ask for, each once and in the order of the registry."""
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


@dataclass(frozen=True)
class Ran:
    """The records of all runs, the protocol with the strength that was chosen for EWC, and what failed."""

    protocol: Protocol
    results: Results = field(default_factory=dict)
    failures: Mapping[tuple[Data, Run], Failure] = field(default_factory=dict)
    strength: Json | None = None


def run_all(tables: Sequence[Table], protocol: Protocol, run: MakeRuns, search: Table = TABLES["tuning"]) -> Ran:
    """All runs of the tables at once, so that they share their stages; after them, what waits for EWC's strength.

    `search` is the table that chooses the strength.
    """
    results: dict[Data, dict[Run, Sequence[Record]]] = {}
    failures: dict[tuple[Data, Run], Failure] = {}

    def make(tables: Iterable[Table], protocol: Protocol) -> None:
        for data, runs in _wanted(tables, protocol).items():
            known = results.setdefault(data, {})
            if missing := [one for one in runs if one not in known and (data, one) not in failures]:
                outcome = run(data, missing)
                known.update(outcome.records)
                failures.update({(data, failure.run): failure for failure in outcome.failures})

    waiting = [table for table in tables if any(row.waits(protocol) for row in table.rows(protocol))]
    make(dict.fromkeys([*tables, search] if waiting else tables), protocol)
    if not waiting:
        return Ran(protocol, results, failures)
    tuned = search.make(protocol, results, search.seeds_of(protocol))
    # Should the whole search have failed, the tables' rows are tried all the same, with what is the default.
    chosen = float(tuned["chosen"] or protocol.options.strength)
    protocol = replace(protocol, strength=chosen)
    make(waiting, protocol)
    tried = {line["name"]: line["cells"]["average"]["mean"] for line in tuned["sheets"][0]["rows"]}
    strength = {"chosen": chosen, "validation_average": tried}
    return Ran(protocol, results, failures, strength)


def _wanted(tables: Iterable[Table], protocol: Protocol) -> dict[Data, list[Run]]:
    runs: dict[Data, dict[Run, None]] = {}
    for table in tables:
        for data, run in wanted(table.rows(protocol), protocol, table.seeds_of(protocol)):
            runs.setdefault(data, {})[run] = None
    return {data: list(some) for data, some in runs.items()}


def figures(table: Table, ran: Ran, version: str = __version__) -> Json:
    """The figures written of a table, but for what only the command line knows."""
    protocol, seeds = ran.protocol, table.seeds_of(ran.protocol)
    rows = table.rows(protocol)
    needed = set(wanted(rows, protocol, seeds))
    source: str = printed()["source"]
    failures = ((data, failure) for (data, run), failure in ran.failures.items() if (data, run) in needed)
    return {
        "table": table.name,
        "title": table.title,
        "memgrow": version,
        "paper": source if protocol.corpus == "multinli" else source.replace("MultiNLI", "dialogue"),
        "seeds": seeds,
        "protocol": protocol.to_json(),
        **({"strength": ran.strength} if ran.strength and any(row.elastic for row in rows) else {}),
        **table.make(protocol, ran.results, seeds),
        "failures": in_words(failures),
    }


def in_words(failures: Iterable[tuple[Data, Failure]]) -> list[str]:
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
    """The difference between the data used and all that there are, in words."""
    limit = f" ({data.limit:,} pairs of each)" if data.limit else ""
    return f"{limit} with guessed genres" if data.extra else limit


def _listed(seeds: Sequence[int]) -> str:
    """0 to 9 where none is missing, else each."""
    whole = len(seeds) > 2 and sorted(seeds) == list(range(min(seeds), max(seeds) + 1))
    return f"{min(seeds)} to {max(seeds)}" if whole else ", ".join(map(str, sorted(seeds)))


@dataclass
class Runner:
    """Makes the runs of all tables, or finds those that were made before; without a corpus by what is remembered."""

    corpus: Corpus | None
    store: Store
    memory: Memory
    vectors: Path | None = None
    evaluation: ReplyEvaluation | None = None  # of models that reply
    makes: bool = True  # False: only what is in the store
    device: str = "auto"
    workers: int = 1
    _grids: dict[tuple[Data, bool], Grid] = field(default_factory=dict)

    def run(self, data: Data, runs: Sequence[Run]) -> Outcome:
        if self.corpus is None:
            known = self.known(data)
            return outcome_of(Ledger(self.store, known.data, known.held_out), runs)
        grid = self.grid(data)
        outcome = grid.run(runs) if self.makes else grid.found(runs)
        if outcome.records:
            self._remember(data, grid.ledger)
        return outcome

    def known(self, data: Data) -> Known:
        if data not in self.memory.known:
            raise SettingsError(f"{self.memory.path} does not know this data: name the corpus with --data")
        return self.memory.known[data]

    def sizes(self, data: Data) -> Mapping[str, Mapping[str, int]]:
        return self.known(data).sizes if self.corpus is None else sizes_of(self.corpus.stream(data))

    def grid(self, data: Data, keep_models: bool = False) -> Grid:
        """One for each kind of data, as the fingerprints of a stream take a while."""
        assert self.corpus is not None
        if (data, keep_models) not in self._grids:
            self._grids[data, keep_models] = Grid.of(
                self.corpus.stream(data),
                self.store,
                vectors=self.vectors,
                replies=self.evaluation,
                device=self.device,
                workers=self.workers,
                keep_models=keep_models,
            )
        return self._grids[data, keep_models]

    def echo(self, data: Data) -> Mapping[str, ReplyScores] | None:
        """How the messages of dialogue do as replies to themselves."""
        if self.corpus is not None and self.evaluation is not None:
            found = echo_of(self.corpus.stream(data), self.evaluation)
            self.memory.echo = {name: scores.to_json(FINE) for name, scores in found.items()}
            return found
        return self.memory.echo and {name: ReplyScores.from_json(one, FINE) for name, one in self.memory.echo.items()}

    def _remember(self, data: Data, ledger: Ledger) -> None:
        self.memory.known[data] = Known(ledger.data, ledger.held_out, self.sizes(data))
        if self.makes or not self.memory.memgrow:
            self.memory.memgrow = __version__
        self.memory.write()


@dataclass(frozen=True)
class Session:
    """Tables go to the folder `out`. `words` are the options that decided the figures, for the record."""

    protocol: Protocol
    out: Path
    runner: Runner
    words: Sequence[str] = ()

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        if self.protocol.corpus == "multinli":
            return TABLES
        return dialogue_tables(self.runner.echo(self.protocol.data))

    def run(self, names: Sequence[str]) -> Ran:
        """The runs of all that is named together, so that they share their stages."""
        tables = [self.tables[name] for name in names if name in self.tables]
        if not tables:
            return Ran(self.protocol)
        search = TABLES["tuning"] if self.protocol.corpus == "multinli" else TUNING
        return run_all(tables, self.protocol, self.runner.run, search)

    def table(self, name: str, ran: Ran) -> Json:
        """The figures of a table, as they have been written; studies that were written under the same protocol stay."""
        made = figures(self.tables[name], ran, self.runner.memory.memgrow or __version__)
        made |= {"command": self.command(name), **self._material(ran)}
        before, alike = read_figures(self.out, name), ("memgrow", "protocol", "seeds", "data", "vectors")
        if before is not None and "studies" in made and all(before.get(one) == made.get(one) for one in alike):
            made["studies"] = before["studies"] | made["studies"]
        write_figures(self.out, name, made)
        return made

    def message(self, domain: str, index: int) -> str | None:
        """A test message of the corpus, by its number: messages are written nowhere."""
        corpus = self.runner.corpus
        return None if corpus is None else corpus.stream(self.protocol.data)[domain].test[index].text

    def theorem(self) -> dict[str, Any]:
        """The theorem's figures; those of an earlier command where no runs are to be made."""
        made = None if self.runner.makes else read_figures(self.out, THEOREM)
        if made is None:
            grid = self.runner.grid(self.protocol.data, True) if self.runner.corpus else None
            made = theorem_figures(self.protocol, grid)
        made["command"] = self.command(THEOREM)
        write_figures(self.out, THEOREM, made)
        return made

    def command(self, name: str) -> str:
        words = [word for word in self.words if name == "conditions" or not word.startswith("--extra")]
        return " ".join(("python -m research.paper", name, *words))

    def _material(self, ran: Ran) -> dict[str, Any]:
        files = self.runner.memory.files
        material = {"data": self.runner.sizes(ran.protocol.data), "vectors": files.get("vectors")}
        return material if self.protocol.corpus == "multinli" else {**material, "w2v": files.get("w2v")}
