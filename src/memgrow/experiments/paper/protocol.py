"""The paper's protocol on MultiNLI as data: genres in their order, settings, ranges that are searched, seeds."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.loop import TrainingSettings

GENRES = ("fiction", "government", "slate", "telephone", "travel")
SOURCE, TARGET = PAIR = GENRES[:2]
PROPOSED = "F+M+V"  # what the paper compares every other row with
VECTOR = 300  # numbers of a word's vector


@dataclass(frozen=True)
class Data:
    """Which pairs of the corpus are used."""

    limit: int | None = None  # training pairs of each genre, at most
    held_out: int | None = None  # validation pairs, and test pairs, of each genre, at most
    extra: bool = False  # pairs whose genre was guessed join the training parts


@dataclass(frozen=True)
class Protocol:
    """What all tables share. The settings of models and training are memgrow's defaults, which are the paper's."""

    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    options: MethodSettings = field(default_factory=MethodSettings)
    data: Data = Data()
    seeds: int | None = None  # None: as many as a table asks for
    slots: tuple[int, ...] = (1, 100, 200, 300, 400, 500)
    rates: tuple[float, ...] = (0.3, 0.03, 0.003, 0.0003, 0.00003)
    strengths: tuple[float, ...] = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)  # of EWC
    strength: float | None = None  # of EWC, once it has been chosen
    scale: float = 1.0  # slots and limits that a table names are multiplied by it
    points: int | None = None  # of each study, at most
    studies: tuple[str, ...] | None = None  # None: all of them
    extra: bool = False  # whether there are pairs whose genre was guessed, for the studies that use them

    def scaled(self, number: int) -> int:
        return max(1, round(number * self.scale))

    def to_json(self) -> dict[str, Any]:
        """What decided a table's figures."""
        settings = {name: asdict(getattr(self, name)) for name in ("model", "training", "options", "data")}
        return {"genres": list(GENRES), **settings, "scale": self.scale}


PAPER = Protocol()

# Everything is there and nothing means anything: the whole machinery in minutes on two cores.
QUICK = Protocol(
    model=ModelSettings(embedding=32, hidden=32, slots=16, perceptron=32),
    training=TrainingSettings(rate=3e-3, epochs=2, max_words=40),
    options=MethodSettings(fisher_examples=32),
    data=Data(limit=160, held_out=100),
    seeds=2,
    slots=(1, 200, 500),
    rates=(0.03, 0.003),
    strengths=(1.0, 1000.0),
    scale=16 / 500,
    points=2,
)


def protocol(quick: bool, seeds: int | None, limit: int | None, vectors: bool) -> Protocol:
    """The paper's protocol or the quick one, as the command line has it."""
    chosen = QUICK if quick else PAPER
    data = replace(chosen.data, limit=limit or chosen.data.limit)
    model = replace(chosen.model, embedding=VECTOR) if vectors else chosen.model
    return replace(chosen, model=model, data=data, seeds=seeds or chosen.seeds)
