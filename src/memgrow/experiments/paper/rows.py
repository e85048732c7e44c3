"""A row of a table: a method with its settings, and the runs that stand behind it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memgrow.experiments.paper.protocol import GENRES, Data, Protocol
from memgrow.experiments.run import Record, Run
from memgrow.methods import Method, MethodSettings, find_method
from memgrow.methods.averaging import Averaging
from memgrow.methods.distillation import Distillation
from memgrow.methods.ewc import ElasticWeights
from memgrow.methods.slow_old import SlowOldWeights
from memgrow.methods.weight_ema import WeightEMA, WeightEMAFromTheFirst

Results = Mapping[Data, Mapping[Run, Sequence[Record]]]
"""The records of each run that succeeded, by the data that it ran on."""

Printed = tuple[float, str | None]
"""An accuracy in percent that the paper prints, and its arrow."""

COUNTS = ("slots", "limit")  # of a row's settings: these shrink with a protocol's scale


MATTERS: dict[str, Callable[[Method], bool]] = {
    "slots": lambda method: bool({"slots", "hidden"} & set(method.grows)),
    "quiet": lambda method: "slots" in method.grows,
    "strength": lambda method: ElasticWeights in method.remembers,
    "fisher": lambda method: ElasticWeights in method.remembers,
    "fisher_examples": lambda method: ElasticWeights in method.remembers,
    "keep": lambda method: Averaging in method.remembers,
    "distil": lambda method: Distillation in method.remembers,
    "temperature": lambda method: Distillation in method.remembers,
    "old_rate": lambda method: SlowOldWeights in method.remembers,
    "smooth": lambda method: bool({WeightEMA, WeightEMAFromTheFirst} & set(method.remembers)),
}
"""Which methods read an option. One that is not named here is taken to matter to all."""


@dataclass(frozen=True)
class Row:
    """What one line of a table has learnt, and how. Settings that are not named are the protocol's."""

    name: str
    method: str
    learns: tuple[str, ...] = GENRES
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Printed] = field(default_factory=dict)  # by column
    group: str = ""  # rows of one group stand together
    about: Mapping[str, Any] = field(default_factory=dict)  # what else the table says of it

    def run(self, protocol: Protocol, seed: int) -> Run:
        options: MethodSettings = replace(protocol.options, **_scaled(self.options, protocol))
        if protocol.strength is not None and "strength" not in self.options:
            options = replace(options, strength=protocol.strength)
        model = replace(protocol.model, **_scaled(self.model, protocol))
        options = _that_matter(options, find_method(self.method))
        if options.slots == model.slots:  # as many as the model began with: said in one way only
            options = replace(options, slots=None)
        return Run(self.method, self.learns, seed, model, replace(protocol.training, **self.training), options)

    def waits(self, protocol: Protocol) -> bool:
        """Whether a strength of EWC's penalty has yet to be chosen for it."""
        elastic = ElasticWeights in find_method(self.method).remembers
        return elastic and protocol.strength is None and "strength" not in self.options

    def on(self, protocol: Protocol) -> Data:
        return replace(protocol.data, **_scaled(self.data, protocol))

    def answering(self, protocol: Protocol, seed: int) -> dict[str, Run]:
        """The run that answers for each genre: one for all of them, unless each genre has a model of its own."""
        run = self.run(protocol, seed)
        if self.method != "in-domain":
            return dict.fromkeys(GENRES, run)
        return {genre: replace(run, learns=(genre,)).upto(1) for genre in self.learns}


def wanted(rows: Sequence[Row], protocol: Protocol, seeds: int) -> Iterator[tuple[Data, Run]]:
    """The runs behind rows that need not wait, seed by seed; some may come twice."""
    ready = [row for row in rows if not row.waits(protocol)]
    for seed in range(seeds):
        for row in ready:
            for run in dict.fromkeys(row.answering(protocol, seed).values()):
                yield row.on(protocol), run


def _that_matter(options: MethodSettings, method: Method) -> MethodSettings:
    """Options that a method never reads fall back to their defaults, so that it is not run again for each of them."""
    idle = [name for name, matters in MATTERS.items() if not matters(method)]
    defaults = MethodSettings()
    return replace(options, **{name: getattr(defaults, name) for name in idle})


def _scaled(settings: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
    return {name: protocol.scaled(value) if name in COUNTS and value else value for name, value in settings.items()}
