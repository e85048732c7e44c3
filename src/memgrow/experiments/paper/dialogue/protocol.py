"""The paper's protocol for dialogue as data: domains, settings, the range that is searched, how replies are made."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memgrow.experiments.paper.protocol import Data, Protocol
from memgrow.experiments.reply_records import ReplyEvaluation
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.loop import TrainingSettings

SOURCE, TARGET = PAIR = ("cornell", "ubuntu")
LETTERS = {"S": SOURCE, "T": TARGET}


@dataclass(frozen=True)
class DialogueProtocol(Protocol):
    """What both tables share, beside what all of the paper's tables do."""

    beam: int = 1  # of replies: 1 is greedy
    longest: int = 40  # words of a reply
    samples: int = 10  # replies of each domain in Table 6
    resamples: int = 10_000  # of the bootstrap

    def trial(self, vectors: Path | None) -> ReplyEvaluation:
        """How models are tried; `vectors` are those of W2V-Sim."""
        return ReplyEvaluation(self.beam, self.longest, self.samples, vectors)

    def to_json(self) -> dict[str, Any]:
        settings = {name: asdict(getattr(self, name)) for name in ("model", "training", "options", "data")}
        decoding = {"beam": self.beam, "longest": self.longest}
        return {"domains": list(PAIR), **settings, "decoding": decoding, "resamples": self.resamples}


# The paper stores 27,000 words of the source. Of the prepared files, words that occur twice or more are 32,406, those
# that occur three times 23,900; two keeps more of the target's own words, which V is about.
PAPER = DialogueProtocol(
    model=ModelSettings(cell="gru", embedding=1024, hidden=1024, slots=1024, bidirectional=False),
    training=TrainingSettings(rate=3e-4, batch=64, min_count=2),
)

# Everything is there and nothing means anything.
QUICK = DialogueProtocol(
    model=ModelSettings(cell="gru", embedding=24, hidden=24, slots=8, bidirectional=False),
    training=TrainingSettings(rate=1e-2, batch=16, epochs=6, max_words=40),
    options=MethodSettings(fisher_examples=16),
    data=Data(limit=300, held_out=60),
    seeds=2,
    strengths=(1.0, 1000.0),
    scale=8 / 1024,
    longest=12,
    samples=3,
    resamples=200,
)


def protocol(quick: bool, seeds: int | None, limit: int | None, vectors: int | None) -> DialogueProtocol:
    """The paper's protocol or the quick one, as the command line has it; `vectors` is the size of given ones."""
    chosen = QUICK if quick else PAPER
    data = replace(chosen.data, limit=limit or chosen.data.limit)
    model = replace(chosen.model, embedding=vectors) if vectors else chosen.model
    return replace(chosen, model=model, data=data, seeds=seeds or chosen.seeds)
