"""The trials of a search: what they may see, how they are scored, and what is told of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Protocol

from memgrow.data import Stream
from memgrow.experiments.reply_records import ReplyEvaluation, ReplyRecord, losses
from memgrow.experiments.run import Record
from memgrow.experiments.tuning.space import Space
from memgrow.learner import Learner
from memgrow.metrics.replies import perplexity
from memgrow.storage import finite

COMPLETE, PRUNED, FAILED = "complete", "pruned", "failed"


class SearchWatcher(Protocol):
    """Anything that can show how far a search is."""

    def begin(self, done: int, trials: int) -> None:
        """Called once, with the number of trials that are finished already and that are wanted in all."""

    def moved(self, number: int, share: float, where: str) -> None:
        """Called as a trial goes on: the share of it that is done, and the node of its last stage, on a cluster."""

    def ended(self, trial: "Tried", best: "Tried | None") -> None:
        """Called when a trial has ended, with the best so far."""

    def note(self, sentence: str) -> None:
        """Called with what a user should know."""


@dataclass(frozen=True)
class Tried:
    """A trial that has ended: its settings by name, its score after each stage, and how it ended."""

    number: int
    values: Mapping[str, float]
    scores: tuple[float, ...]
    state: str  # complete, pruned or failed
    reason: str = ""

    @property
    def score(self) -> float | None:
        return self.scores[-1] if self.state == COMPLETE else None


@dataclass(frozen=True)
class Found:
    """The outcome of a search: its trials in their order, and how much each setting mattered, out of 1."""

    trials: tuple[Tried, ...]
    importances: Mapping[str, float]
    seeds: int  # of each trial
    space: Space

    @property
    def best(self) -> Tried | None:
        complete = [trial for trial in self.trials if trial.score is not None]
        return max(complete, key=lambda trial: (trial.scores[-1], -trial.number), default=None)

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = finite(asdict(self))
        return {**plain, "best": None if self.best is None else self.best.number}


@dataclass(frozen=True)
class ValidationReplies(ReplyEvaluation):
    """Evaluates models that answer with words on validation examples alone; no replies are made."""

    def evaluate(self, learner: Learner, stream: Stream) -> dict[str, dict[str, ReplyRecord]]:
        return {"validation": {domain.name: ReplyRecord(*losses(learner, domain.validation)) for domain in stream}}


def without_test(stream: Stream) -> Stream:
    """The stream as a search may see it: without any test examples."""
    return Stream(replace(domain, test=()) for domain in stream)


def score_of(record: Record, names: Sequence[str]) -> float:
    """The mean score of a stage on the validation examples of those domains; of replies, 1 / perplexity."""
    if record.replies:
        found = [record.replies["validation"][name] for name in names]
        known = [(one.loss, one.tokens) for one in found]
        return fmean(1 / perplexity(loss, n) for loss, n in known if loss is not None and n is not None)
    return fmean(fmean(record.validation[name]) for name in names)
