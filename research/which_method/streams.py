"""The streams of the protocol: which are for choosing and which for checking, and the settings on each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from memgrow import Stream, synthetic_stream
from memgrow.errors import SettingsError
from research.common.corpora import FIVE, Loaded, limited
from research.common.dialogues import synthetic_dialogue
from research.common.settings import FINE_TUNING, ModelSettings, TrainingSettings
from research.encoders.grammar import NAME as GRAMMAR_ENCODER
from research.encoders.streams import REVIEWS, STREAMS, StudyStream
from research.paper.corpora import Dialogues
from research.paper.protocol import DIALOGUES, Data

Part = Literal["choosing", "checking", "third", "power"]
PARTS: tuple[Part, ...] = ("choosing", "checking", "third", "power")
SEEDS = {"choosing": range(10), "checking": range(10, 20), "third": range(20, 30), "power": range(10, 31)}

PAIRS, HELD_OUT = 4_000, 1_000  # of each domain of dialogue: to train on, and for validation and for test each
MADE, MADE_ANEW = 10, 20  # seeds of what is made by rule: the demo's are smaller
FEW = {"train": 320, "validation": 40}  # rows of a domain of few reviews
SHORT = 64  # words that are read of one
PLACES = ("kitchen", "harbour", "clinic", "courtroom")
DESKS = ("kitchen", "harbour", "library")
ALL_PLACES = ("theatre", "garden", *PLACES[::-1])
CHOOSING_REVIEWS, CHECKING_REVIEWS = REVIEWS[:7], REVIEWS[7:]


@dataclass(frozen=True)
class Settings:
    """The settings that all candidates share on a stream; an encoder's model is the encoder as it came."""

    model: ModelSettings | None
    training: TrainingSettings
    encoder: str | None = None
    vectors: bool = False  # whether words start with vectors of the file that is given


SMALL = Settings(
    ModelSettings(embedding=50, hidden=64, slots=64, perceptron=64), TrainingSettings(rate=1e-3, epochs=15)
)
WITH_VECTORS = Settings(ModelSettings(), TrainingSettings(), vectors=True)
MINILM, GRAMMAR = (Settings(None, FINE_TUNING, encoder) for encoder in ("minilm", GRAMMAR_ENCODER))
FEW_ROWS = Settings(None, replace(FINE_TUNING, epochs="auto", max_words=SHORT), "minilm")  # epochs as users have them
DEMO = Settings(
    ModelSettings(embedding=32, hidden=32, slots=32, perceptron=64), TrainingSettings(rate=3e-3, epochs=8, patience=3)
)
SMALL_REPLIES = Settings(
    ModelSettings(cell="gru", embedding=64, hidden=128, slots=64, bidirectional=False),
    TrainingSettings(rate=2e-3, epochs=15, min_count=2),
)


@dataclass(frozen=True)
class TrialStream:
    """Domains in one order, for one part of the protocol."""

    name: str
    part: Part
    source: str  # the name in SOURCES: where its domains come from
    domains: tuple[str, ...]
    settings: Mapping[str, Settings]  # by family that is tried on it
    only: tuple[str, ...] = ()  # the candidates that are tried, where a question is about these alone
    seeds: range = field(default=range(0))

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", self.seeds or SEEDS[self.part])


def _few_reviews(folder: Path | None) -> Loaded:
    return Loaded(Stream(limited(domain, **FEW) for domain in STREAMS["reviews"].open(folder).stream))


def _dialogue(folder: Path | None) -> Loaded:
    stream = Dialogues(folder).stream(Data(limit=PAIRS, held_out=HELD_OUT))
    return Loaded(Stream(limited(domain, validation=HELD_OUT, test=HELD_OUT) for domain in stream))


def _made(make: Callable[[], Stream]) -> Callable[[Path | None], Loaded]:
    return lambda folder: Loaded(make())


SOURCES = {
    **STREAMS,
    **{
        one.name: one
        for one in (
            StudyStream("made", "sentence pairs made by rule", PLACES, _made(lambda: synthetic_stream(seed=MADE))),
            StudyStream(
                "made-anew",
                "other sentence pairs made by rule",
                ALL_PLACES,
                _made(lambda: synthetic_stream(len(ALL_PLACES), seed=MADE_ANEW)),
            ),
            StudyStream("few-reviews", "a few reviews of each kind", CHECKING_REVIEWS[:4], _few_reviews),
            StudyStream(
                "made-replies",
                "messages and replies made by rule",
                DESKS,
                _made(lambda: synthetic_dialogue(len(DESKS), seed=MADE)),
            ),
            StudyStream("dialogue", "lines of films, then a help channel", DIALOGUES, _dialogue),
        )
    },
}

_SENTIMENT = STREAMS["sentiment"].domains
_LABELS = {"bilstm": SMALL, "encoder": MINILM}
_PAIRS = {"bilstm": WITH_VECTORS, "encoder": GRAMMAR}

TRIALS = {
    trial.name: trial
    for trial in (
        TrialStream("sentiment", "choosing", "sentiment", _SENTIMENT, _LABELS),
        TrialStream("sentiment-reversed", "choosing", "sentiment", _SENTIMENT[::-1], _LABELS),
        TrialStream("reviews", "choosing", "reviews", CHOOSING_REVIEWS, _LABELS),
        TrialStream("genres", "choosing", "multinli", FIVE[:2], _PAIRS),
        TrialStream("desks", "choosing", "made-replies", DESKS, {"replies": SMALL_REPLIES}),
        TrialStream("desks-reversed", "choosing", "made-replies", DESKS[::-1], {"replies": SMALL_REPLIES}),
        TrialStream("other-reviews", "checking", "reviews", CHECKING_REVIEWS, _LABELS),
        TrialStream("other-reviews-reversed", "checking", "reviews", CHECKING_REVIEWS[::-1], _LABELS),
        TrialStream("five-genres", "checking", "multinli", FIVE[::-1], _PAIRS),
        TrialStream("made", "checking", "made", PLACES, {"bilstm": DEMO, "encoder": MINILM}),
        TrialStream("made-anew", "third", "made-anew", ALL_PLACES, {"encoder": MINILM}),
        TrialStream("few-reviews", "third", "few-reviews", CHECKING_REVIEWS[:4], {"encoder": FEW_ROWS}),
        TrialStream("dialogue", "checking", "dialogue", DIALOGUES, {"replies": SMALL_REPLIES}),
        TrialStream("slots", "power", "multinli", FIVE, {"bilstm": WITH_VECTORS}, only=("F+V", "F+M+V")),
    )
}


def trials(part: Part, family: str) -> list[TrialStream]:
    """The streams of one part on which a family is tried, in the order in which they are run."""
    return [trial for trial in TRIALS.values() if trial.part == part and family in trial.settings]


def trial_called(name: str) -> TrialStream:
    if name not in TRIALS:
        raise SettingsError(f"there is no stream {name!r}; there are {', '.join(TRIALS)}")
    return TRIALS[name]
