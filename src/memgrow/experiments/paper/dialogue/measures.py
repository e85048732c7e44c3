"""What is measured of replies: the columns of Table 5, as data."""

from collections.abc import Callable
from dataclasses import dataclass

from memgrow.experiments.paper.dialogue.protocol import LETTERS
from memgrow.experiments.reply_records import ReplyRecord, ReplyScores
from memgrow.metrics.replies import perplexity


@dataclass(frozen=True)
class Measure:
    """A figure of the replies to one domain's test messages; None where what it needs is not there."""

    name: str
    title: str
    digits: int  # that are kept
    of: Callable[[ReplyRecord], float | None]

    @property
    def columns(self) -> dict[str, str]:
        """The domain of each of its columns."""
        return {f"{self.name}_{letter}": domain for letter, domain in LETTERS.items()}


def _of_said(figure: Callable[[ReplyScores], float | None]) -> Callable[[ReplyRecord], float | None]:
    return lambda replied: None if replied.scores is None else figure(replied.scores)


def loss(replied: ReplyRecord) -> float | None:
    """Nats to a token."""
    if replied.loss is None or replied.tokens is None or not replied.tokens.sum():
        return None
    return float(replied.loss.sum() / replied.tokens.sum())


def _perplexity(replied: ReplyRecord) -> float | None:
    if loss(replied) is None or replied.loss is None or replied.tokens is None:
        return None
    return perplexity(replied.loss, replied.tokens)


def _similarity(said: ReplyScores) -> float | None:
    return None if said.similarity is None else float(said.similarity.mean())


TESTED = (
    Measure("bleu2", "BLEU-2", 3, _of_said(lambda said: said.counts.score())),
    Measure("w2v_sim", "W2V-Sim", 4, _of_said(_similarity)),
)
BESIDE = (
    Measure("perplexity", "perplexity", 2, _perplexity),
    Measure("distinct1", "distinct-1, %", 2, _of_said(lambda said: 100 * said.distinct[0])),
    Measure("distinct2", "distinct-2, %", 2, _of_said(lambda said: 100 * said.distinct[1])),
    Measure("length", "words", 2, _of_said(lambda said: float(said.counts.totals[:, 0].mean()))),
)
MEASURES = (*TESTED, *BESIDE)
