"""The paper's protocols on MultiNLI and on dialogue, as data: domains, settings, ranges that are searched, seeds."""

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from research.common.replies import ReplyEvaluation
from research.common.settings import MethodSettings, ModelSettings, TrainingSettings

GENRES = ("fiction", "government", "slate", "telephone", "travel")
SOURCE, TARGET = PAIR = GENRES[:2]
DIALOGUES = ("cornell", "ubuntu")
DOMAINS = {"multinli": GENRES, "dialogue": DIALOGUES}
PROPOSED = "F+M+V"  # what the paper compares every other row with
VECTOR = 300  # numbers of a word's vector


@cache
def printed() -> dict[str, Any]:
    """The figures that the paper prints, by table; a pair is a figure and the paper's arrow. Not to be changed."""
    figures: dict[str, Any] = json.loads(files(__package__).joinpath("printed.json").read_text(encoding="utf-8"))
    return figures


@dataclass(frozen=True)
class Data:
    """The pairs of the corpus that are used."""

    limit: int | None = None  # training pairs of each domain, at most
    held_out: int | None = None  # validation pairs, and test pairs, of each domain, at most
    extra: bool = False  # pairs whose genre was guessed join the training parts


@dataclass(frozen=True)
class Replies:
    """The settings by which models that reply are tried."""

    beam: int = 1  # 1 is greedy
    longest: int = 40  # words of a reply
    samples: int = 10  # replies of each domain in Table 6
    resamples: int = 10_000  # of the bootstrap


@dataclass(frozen=True)
class Protocol:
    """The settings that all tables on a corpus share; memgrow's own defaults are the paper's for NLI."""

    corpus: Literal["multinli", "dialogue"] = "multinli"
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    options: MethodSettings = field(default_factory=MethodSettings)
    data: Data = Data()
    replies: Replies = Replies()  # of dialogue
    seeds: int | None = None  # None: as many as a table asks for
    slots: tuple[int, ...] = (1, 100, 200, 300, 400, 500)
    rates: tuple[float, ...] = (0.3, 0.03, 0.003, 0.0003, 0.00003)
    strengths: tuple[float, ...] = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)  # of EWC
    strength: float | None = None  # of EWC, once it has been chosen
    scale: float = 1.0  # slots and limits that a table names are multiplied by it
    points: int | None = None  # of each study, at most
    studies: tuple[str, ...] | None = None  # None: all of them
    extra: bool = False  # whether there are pairs whose genre was guessed, for the studies that use them

    @property
    def domains(self) -> tuple[str, ...]:
        return DOMAINS[self.corpus]

    @property
    def pair(self) -> dict[str, str]:
        """The two domains of the tables from one to another, by the paper's letters."""
        return dict(zip("ST", self.domains, strict=False))

    def scaled(self, number: int) -> int:
        return max(1, round(number * self.scale))

    def evaluation(self, vectors: Path | None) -> ReplyEvaluation:
        """The evaluation of models that reply; `vectors` are those of W2V-Sim."""
        return ReplyEvaluation(self.replies.beam, self.replies.longest, self.replies.samples, vectors)

    def to_json(self) -> dict[str, Any]:
        """The settings that decided a table's figures."""
        settings = {name: _settings(asdict(getattr(self, name))) for name in ("model", "training", "options", "data")}
        if self.corpus == "multinli":
            return {"genres": list(GENRES), **settings, "scale": self.scale}
        decoding = {"beam": self.replies.beam, "longest": self.replies.longest}
        return {"domains": list(DIALOGUES), **settings, "decoding": decoding, "resamples": self.replies.resamples}


LATER = {  # settings that memgrow had only after the tables were made: shown where they are not at their defaults
    "domains_read": 0,
    "lowercase": False,
    "min_documents": 1,
    "new_rate": None,
    "warm_up": 0,
    "schedule": "constant",
    "rank": 8,
    "ridge": 1000.0,
    "sparse_slots": 64,
    "rehearse": 100,
    "rehearsal_share": 0.25,
}


def _settings(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in LATER or value != LATER[name]}


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

# The paper stores 27,000 words of the source. Of the prepared files, words that occur twice or more are 32,406, those
# that occur three times 23,900; two keeps more of the target's own words, which V is about.
DIALOGUE = Protocol(
    "dialogue",
    model=ModelSettings(cell="gru", embedding=1024, hidden=1024, slots=1024, bidirectional=False),
    training=TrainingSettings(rate=3e-4, batch=64, min_count=2),
)

QUICK_DIALOGUE = Protocol(
    "dialogue",
    model=ModelSettings(cell="gru", embedding=24, hidden=24, slots=8, bidirectional=False),
    training=TrainingSettings(rate=1e-2, batch=16, epochs=6, max_words=40),
    options=MethodSettings(fisher_examples=16),
    data=Data(limit=300, held_out=60),
    replies=Replies(longest=12, samples=3, resamples=200),
    seeds=2,
    strengths=(1.0, 1000.0),
    scale=8 / 1024,
)


def asked(protocol: Protocol, seeds: int | None, limit: int | None, vectors: bool) -> Protocol:
    """A protocol as the command line has it; `vectors`: whether word vectors were given."""
    data = replace(protocol.data, limit=limit or protocol.data.limit)
    model = replace(protocol.model, embedding=VECTOR) if vectors else protocol.model
    return replace(protocol, model=model, data=data, seeds=seeds or protocol.seeds)
