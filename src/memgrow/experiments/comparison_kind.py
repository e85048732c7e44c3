"""The two kinds of comparison, of labels and of replies: what is measured, and with which sizes one begins."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from memgrow.data import Stream
from memgrow.experiments.run import Record
from memgrow.metrics.perplexity import perplexity
from memgrow.models import ModelSettings
from memgrow.training import TrainingSettings

Scores = Mapping[str, float]
"""By domain."""


@dataclass(frozen=True)
class Kind:
    """What a score is: its name in figures, and how tables and pictures speak of it; 1 is shown as 100."""

    measure: str
    unit: str
    share: str  # of what it is the share or the score
    title: str  # of a matrix of scores
    average: str
    scores: Callable[[Record], Scores]
    model: ModelSettings  # as in recipes/small*.yaml: ten thousand short texts take minutes on two cores
    training: TrainingSettings
    stack: int = 10  # seeds that are trained together on a GPU, at most
    spoken: bool = False  # whether models answer with words, whose scores may well be below a tenth


def _accuracies(record: Record) -> Scores:
    return {name: fmean(right) for name, right in record.test.items() if right}


def _bleu2(record: Record) -> Scores:
    test = record.replies.get("test", {})
    return {name: replied.said.counts.score() / 100 for name, replied in test.items() if replied.said is not None}


def perplexities(record: Record) -> Scores:
    """Of the replies given, by domain; none where models answer with labels."""
    test = record.replies.get("test", {})
    return {
        name: perplexity(replied.loss, replied.tokens)
        for name, replied in test.items()
        if replied.loss is not None and replied.tokens is not None
    }


LABELS = Kind(
    "accuracy",
    "%",
    "% of the test examples",
    "test accuracy, %",
    "average accuracy at the end, %",
    _accuracies,
    ModelSettings(embedding=50, hidden=64, slots=64, perceptron=64),
    TrainingSettings(rate=1e-3, epochs=15),
)
REPLIES = Kind(
    "bleu2",
    "BLEU-2",
    "BLEU-2 of the test replies",
    "BLEU-2 of the test replies",
    "average BLEU-2 at the end",
    _bleu2,
    ModelSettings(cell="gru", embedding=64, hidden=128, slots=64, bidirectional=False),
    TrainingSettings(rate=2e-3, epochs=15),
    stack=1,  # models that answer with words are not stacked: seeds go to different workers instead
    spoken=True,
)


def kind_of(stream: Stream) -> Kind:
    return REPLIES if any(domain.has_replies for domain in stream) else LABELS
