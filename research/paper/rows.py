"""A row of a table: a method with its settings, the runs that it takes, and those of them that are finished."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from research.common.methods import Method, method_called
from research.common.runs import Record, Run
from research.common.settings import MethodSettings
from research.paper.protocol import GENRES, Data, Protocol

Results = Mapping[Data, Mapping[Run, Sequence[Record]]]
"""The records of each run that succeeded, by the data that it ran on."""

Printed = tuple[float, str | None]
"""A figure that the paper prints, and its arrow."""

Changes = Mapping[str, Any]
"""Settings by name, for `dataclasses.replace`."""

NO_MEMORY: Changes = {"slots": 0}
COUNTS = ("slots", "limit")  # of a row's settings: these shrink with a protocol's scale


@dataclass(frozen=True)
class Row:
    """One line of a table: what was learned, and how. Settings that are not named are the protocol's."""

    name: str
    method: str
    learns: tuple[str, ...] = GENRES
    model: Changes = field(default_factory=dict)
    training: Changes = field(default_factory=dict)
    options: Changes = field(default_factory=dict)
    data: Changes = field(default_factory=dict)
    paper: Mapping[str, Printed] = field(default_factory=dict)  # by column
    group: str = ""  # rows of one group stand together
    about: Mapping[str, int | float | str | None] = field(default_factory=dict)  # what else the table says of it

    def run(self, protocol: Protocol, seed: int) -> Run:
        options: MethodSettings = replace(protocol.options, **_scaled(self.options, protocol))
        if protocol.strength is not None and "strength" not in self.options:
            options = replace(options, strength=protocol.strength)
        model = replace(protocol.model, **_scaled(self.model, protocol))
        options = _that_are_read(options, method_called(self.method))
        if options.slots == model.slots:  # as many as the model began with: said in one way only
            options = replace(options, slots=None)
        return Run(self.method, self.learns, seed, model, replace(protocol.training, **self.training), options)

    def waits(self, protocol: Protocol) -> bool:
        """Whether a strength of EWC's penalty has yet to be chosen for it."""
        return self.elastic and protocol.strength is None

    @property
    def elastic(self) -> bool:
        """Whether it takes the strength that is chosen for EWC."""
        return "EWC" in method_called(self.method).parts and "strength" not in self.options

    def on(self, protocol: Protocol) -> Data:
        return replace(protocol.data, **_scaled(self.data, protocol))

    def answering(self, protocol: Protocol, seed: int) -> dict[str, Run]:
        """The run that answers for each domain: one for all of them, unless each domain has its own model."""
        run = self.run(protocol, seed)
        if self.method != "in-domain":
            return dict.fromkeys(protocol.domains, run)
        return {domain: replace(run, learns=(domain,)).upto(1) for domain in self.learns}

    def finished(self, protocol: Protocol, results: Results, seeds: int) -> "list[Finished]":
        """Seeds whose runs have all succeeded."""
        runs = results.get(self.on(protocol), {})
        asked = {seed: self.answering(protocol, seed) for seed in range(seeds)}
        return [
            Finished(self, seed, {domain: runs[run] for domain, run in answering.items()})
            for seed, answering in asked.items()
            if all(run in runs for run in answering.values())
        ]


@dataclass(frozen=True)
class Finished:
    """All that one seed of a row has left: for each domain, the stages of the run that answers there."""

    row: Row
    seed: int
    answering: Mapping[str, Sequence[Record]]

    @property
    def last(self) -> dict[str, Record]:
        """The last record of the model that answers for each domain."""
        return {domain: records[-1] for domain, records in self.answering.items()}

    @property
    def stages(self) -> list[Record]:
        """All that the row went through."""
        runs = list(self.answering.values())
        return [record for records in (runs if self.row.method == "in-domain" else runs[:1]) for record in records]


def wanted(rows: Sequence[Row], protocol: Protocol, seeds: int) -> Iterator[tuple[Data, Run]]:
    """The runs of rows that need not wait, seed by seed; some may come twice."""
    ready = [row for row in rows if not row.waits(protocol)]
    for seed in range(seeds):
        for row in ready:
            for run in dict.fromkeys(row.answering(protocol, seed).values()):
                yield row.on(protocol), run


def _that_are_read(options: MethodSettings, method: Method) -> MethodSettings:
    """Options that a method never reads fall back to their defaults, so that it is not run again for each of them."""
    return MethodSettings(**{name: getattr(options, name) for name in method.reads()})


def _scaled(settings: Changes, protocol: Protocol) -> dict[str, Any]:
    return {name: protocol.scaled(value) if name in COUNTS and value else value for name, value in settings.items()}
