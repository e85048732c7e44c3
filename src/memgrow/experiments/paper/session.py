"""One call of `memgrow paper`, on either corpus: all runs first, each made once, then every table written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from memgrow.errors import SettingsError
from memgrow.experiments.executor import Backend
from memgrow.experiments.grid import Failure, Grid, Outcome, Watcher
from memgrow.experiments.paper.corpora import Corpus, sizes
from memgrow.experiments.paper.dialogue import TUNING, dialogue_tables, echo_of
from memgrow.experiments.paper.figures import Figures, Strength, read_figures, write_figures
from memgrow.experiments.paper.protocol import Data, Protocol, printed
from memgrow.experiments.paper.rows import Results, wanted
from memgrow.experiments.paper.tables import TABLES, Table
from memgrow.experiments.paper.theorem import TheoremTable
from memgrow.experiments.reply_records import ReplyEvaluation
from memgrow.experiments.run import Record, Run
from memgrow.experiments.store import Store
from memgrow.version import __version__

DIALOGUE = tuple(dialogue_tables())  # on another corpus than all others
THEOREM = "theorem"  # needs no runs but of two models
PAGE = "page"  # made from the files of the tables
ALL = "all"  # on MultiNLI, but for tables that stand apart
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
    strength: Strength | None = None


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
    chosen = float((tuned.chosen and tuned.chosen.value) or protocol.options.strength)
    protocol = replace(protocol, strength=chosen)
    make(waiting, protocol)
    strength = Strength(chosen, {line.name: line.cells["average"].mean for line in tuned.sheets[0].rows})
    return Ran(protocol, results, failures, strength)


def _wanted(tables: Iterable[Table], protocol: Protocol) -> dict[Data, list[Run]]:
    runs: dict[Data, dict[Run, None]] = {}
    for table in tables:
        for data, run in wanted(table.rows(protocol), protocol, table.seeds_of(protocol)):
            runs.setdefault(data, {})[run] = None
    return {data: list(some) for data, some in runs.items()}


def figures(table: Table, ran: Ran) -> Figures:
    """The figures written of a table, but for what only the command line knows."""
    protocol, seeds = ran.protocol, table.seeds_of(ran.protocol)
    rows = table.rows(protocol)
    needed = set(wanted(rows, protocol, seeds))
    source: str = printed()["source"]
    return Figures(
        table.name,
        table.title,
        __version__,
        source if protocol.corpus == "multinli" else source.replace("MultiNLI", "dialogue"),
        seeds,
        protocol.to_json(),
        table.make(protocol, ran.results, seeds),
        ran.strength if any(row.elastic for row in rows) else None,
        in_words((data, failure) for (data, run), failure in ran.failures.items() if (data, run) in needed),
    )


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


@dataclass(frozen=True)
class Runner:
    """Makes the runs of all tables. What was made before comes out of the store."""

    corpus: Corpus
    store: Store
    vectors: Path | None
    device: str
    workers: int | None
    watcher: Watcher
    makes: bool = True  # False: only what is in the store
    evaluation: ReplyEvaluation | None = None  # of models that reply
    backend: Backend | None = None  # where runs are made; None: on this machine
    _grids: dict[tuple[Data, bool], Grid] = field(default_factory=dict)

    def run(self, data: Data, runs: Sequence[Run]) -> Outcome:
        grid = self.grid(data)
        return grid.run(runs) if self.makes else grid.found(runs)

    def grid(self, data: Data, keep_models: bool = False) -> Grid:
        """One for each kind of data: to know a stream by its checksum takes a while."""
        if (data, keep_models) not in self._grids:
            # Models that reply are not stacked: seeds go to different workers instead.
            stack: dict[str, Any] = {} if self.evaluation is None else {"stack": 1}
            self._grids[data, keep_models] = Grid(
                self.corpus.stream(data),
                self.store,
                vectors=self.vectors,
                device=self.device,
                workers=self.workers,
                progress=self.watcher,
                keep_models=keep_models,
                reply_evaluation=self.evaluation,
                backend=self.backend,
                **stack,
            )
        return self._grids[data, keep_models]


@dataclass(frozen=True)
class Session:
    """Tables go to the folder `out`. `words` are the options that decided the figures, for the record."""

    protocol: Protocol
    out: Path
    runner: Runner | None  # None: there is no corpus, only the theorem can be had
    words: Sequence[str] = ()

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        if self.protocol.corpus == "multinli" or self.runner is None or self.runner.evaluation is None:
            return TABLES
        return dialogue_tables(echo_of(self.runner.corpus.stream(self.protocol.data), self.runner.evaluation))

    def run(self, names: Sequence[str]) -> Ran:
        """The runs of all that is named together, so that they share their stages."""
        if THEOREM in names and self._theorem_before() is None:
            self._theorem.learn()
        tables = [self.tables[name] for name in names if name in self.tables]
        if not tables or self.runner is None:
            return Ran(self.protocol)
        search = TABLES["tuning"] if self.protocol.corpus == "multinli" else TUNING
        return run_all(tables, self.protocol, self.runner.run, search)

    def table(self, name: str, ran: Ran) -> Figures:
        """The figures of a table, as they have been written."""
        made = replace(figures(self.tables[name], ran), command=self._command(name), material=self._material(ran))
        made = made.with_earlier_studies(read_figures(self.out, name))
        write_figures(self.out, name, made.to_json())
        return made

    def message(self, domain: str, index: int) -> str | None:
        """A test message of the corpus, by its number: messages are written nowhere."""
        return self.runner.corpus.stream(self.protocol.data)[domain].test[index].text if self.runner else None

    def theorem_parts(self) -> int:
        """The number of ticks of `theorem`."""
        return self._theorem.parts

    def theorem(self, tick: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
        """The theorem's figures, made anew only if they would be others."""
        made = {**(self._theorem_before() or self._theorem.make(tick)), "command": self._command(THEOREM)}
        write_figures(self.out, THEOREM, made)
        return made

    @property
    def _theorem(self) -> TheoremTable:
        return TheoremTable(self.protocol, self.runner.grid if self.runner else None)

    def _theorem_before(self) -> dict[str, Any] | None:
        """The figures that an earlier command found, if they hold still."""
        before = read_figures(self.out, THEOREM)
        if before is None or before.get("failures"):
            return None
        return before if before.get("made_from") == self._theorem.made_from() else None

    def _command(self, name: str) -> str:
        return " ".join(("memgrow paper", name, *self.words))

    def _material(self, ran: Ran) -> dict[str, Any]:
        if self.runner is None:
            return {}
        data = sizes(self.runner.corpus.stream(ran.protocol.data))
        material: dict[str, Any] = {"data": data, "vectors": _name(self.runner.vectors)}
        evaluation = self.runner.evaluation
        return material if evaluation is None else {**material, "w2v": _name(evaluation.vectors)}


def _name(path: Path | None) -> str | None:
    return path.name if path else None
