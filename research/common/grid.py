"""Runs on one stream: their stages are made once, kept in a store, and never made again."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from memgrow import Learner, Stream
from memgrow.errors import MemgrowError
from research.common.corpora import fingerprints_of
from research.common.files import say
from research.common.methods import check_available, method_called
from research.common.replies import ReplyEvaluation
from research.common.runs import PARTS, Record, Run
from research.common.settings import for_memgrow
from research.common.store import Ledger, Store

LATE = "there was no time left"


@dataclass(frozen=True)
class Failure:
    """A run that lacks the record of one of its stages, and why."""

    run: Run
    stage: int  # its number in `run.stages()`
    reason: str


@dataclass(frozen=True)
class Outcome:
    """The runs that are whole, with a record for each stage, and the others."""

    records: Mapping[Run, tuple[Record, ...]]
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class Grid:
    """Makes runs on a stream, one after another, or the seeds side by side in `workers` processes.

    With `keep_models` the learner at the end of each run stays in the store. After `until`, a time of
    `time.monotonic`, no run is begun. `describe` makes a line of each new record.
    """

    stream: Stream
    ledger: Ledger
    vectors: Path | None = None
    device: str = "auto"
    workers: int = 1
    keep_models: bool = False
    replies: ReplyEvaluation | None = None  # how models that reply with words are evaluated
    until: float | None = None
    describe: Callable[[Record], str] | None = None

    @classmethod
    def of(
        cls,
        stream: Stream,
        store: Store,
        *,
        vectors: Path | None = None,
        replies: ReplyEvaluation | None = None,
        only_learned: bool = False,
        **options: Any,
    ) -> "Grid":
        """With the fingerprints of the stream, which take a while."""
        data, held_out = fingerprints_of(stream, vectors)
        made = replies.fingerprints() if replies else {}
        ledger = Ledger(store, data, {**held_out, **made}, only_learned)
        return cls(stream, ledger, vectors, replies=replies, **options)

    def found(self, runs: Iterable[Run]) -> Outcome:
        """The runs whose records are there already."""
        return outcome_of(self.ledger, runs)

    def run(self, runs: Iterable[Run]) -> Outcome:
        """Make what is missing of these runs; one that fails does not end the others."""
        wanted = list(dict.fromkeys(runs))
        seeds: dict[int, list[Run]] = {}
        for run in sorted(wanted, key=lambda run: -len(run.learns)):  # a longer run brings the stages of a shorter one
            if self._lacks(run):
                seeds.setdefault(run.seed, []).append(run)
        reasons: dict[Run, str] = {}
        if seeds:
            with self.ledger.store.locked():
                for made in self._each_seed([some for _, some in sorted(seeds.items())]):
                    reasons |= made
                for path in self.ledger.store.model("").glob("first-*"):
                    shutil.rmtree(path)
        return outcome_of(self.ledger, wanted, reasons)

    def model(self, run: Run) -> Path:
        """The folder of the learner at the end of a run, if models are kept."""
        return self.ledger.store.model(self.ledger.key(run.stages()[-1]))

    def _lacks(self, run: Run) -> bool:
        whole = len(self.ledger.records(run)) == len(run.stages())
        return not whole or (self.keep_models and not self.model(run).is_dir())

    def _each_seed(self, seeds: Sequence[Sequence[Run]]) -> Iterable[dict[Run, str]]:
        if self.workers == 1:
            return map(self._make, seeds)
        with ProcessPoolExecutor(self.workers, get_context("spawn")) as pool:
            return list(pool.map(self._make, seeds))

    def _make(self, runs: Sequence[Run]) -> dict[Run, str]:
        """The runs of one seed, which share their first stages; returns why runs failed."""
        reasons = {}
        for run in runs:
            if self.until is not None and time.monotonic() > self.until:
                reasons[run] = LATE
                continue
            try:
                if self._lacks(run):
                    self._make_one(run)
            except MemgrowError as error:
                reasons[run] = str(error)
            except (RuntimeError, OSError, ValueError) as error:
                reasons[run] = f"{type(error).__name__}: {error}"
        return reasons

    def _make_one(self, run: Run) -> None:
        check_available(run.method)
        method = method_called(run.method)
        if method.joint:
            *earlier, last = (self.stream[name] for name in run.learns)
            learner = self._learner(run)
            self._keep(run, learner, learner.adapt(last, earlier=earlier, vectors=self.vectors))
        elif method.reinit:
            for stage in run.stages():
                self._first(stage, replace(stage, model=run.model))
        else:
            self._chain(run)

    def _chain(self, run: Run) -> None:
        """All domains in turn, from the learner of the first that runs of this seed share."""
        learner = self._first(run.upto(1), run.beginning())
        learner.use(run.method, for_memgrow(run.options))
        for stage in run.stages()[1:]:
            made = learner.adapt(self.stream[stage.learns[-1]], vectors=self.vectors)
            self._keep(stage, learner, made)
        if self.keep_models:
            learner.save(self.model(run), overwrite=True)

    def _first(self, stage: Run, beginning: Run) -> Learner:
        """The learner of one domain, from the store or made; its record is that of `stage`."""
        path = self._shared(beginning)
        if path.is_dir() and self.ledger.record(stage) is not None:
            return Learner.load(path, self.device)
        learner = self._learner(beginning)
        made = learner.adapt(self.stream[beginning.learns[0]], vectors=self.vectors)
        self._keep(stage, learner, made)
        learner.save(path, overwrite=True)
        return learner

    def _shared(self, run: Run) -> Path:
        return self.ledger.store.model(f"first-{self.ledger.key(run.beginning())}")

    def _learner(self, run: Run) -> Learner:
        settings = {name: for_memgrow(getattr(run, name)) for name in ("model", "training", "options")}
        return Learner.create(run.method, **settings, seed=run.seed, device=self.device)

    def _keep(self, stage: Run, learner: Learner, made: Any) -> None:
        """Evaluate a learner and keep the record, unless there is one."""
        if self.ledger.record(stage) is not None:
            return
        answers: dict[str, dict[str, tuple[bool, ...]]] = {part: {} for part in PARTS}
        words = {}
        if self.replies is not None:
            answers = {part: dict.fromkeys(self.stream.names, ()) for part in PARTS}
            words = self.replies.evaluate(learner, self.stream)
        else:
            for name in stage.learns if self.ledger.only_learned else self.stream.names:
                for part in PARTS:
                    answers[part][name] = _correct(learner, getattr(self.stream[name], part))
        trained = {"trained": made.trained} if getattr(made, "trained", None) is not None else {}
        about = (asdict(stage), self.ledger.evaluated(stage))
        key, history = self.ledger.key(stage), {**made.to_json(), **trained}
        record = Record(key, history, answers["validation"], answers["test"], *about, words)
        self.ledger.store.put(record)
        if self.describe is not None:
            say(self.describe(record))


def _correct(learner: Learner, examples: Sequence[Any]) -> tuple[bool, ...]:
    answers = learner.predict(examples) if examples else []
    return tuple(answer.label == example.label for answer, example in zip(answers, examples, strict=True))


def outcome_of(ledger: Ledger, runs: Iterable[Run], reasons: Mapping[Run, str] | None = None) -> Outcome:
    """What a ledger has of these runs."""
    records, failures = {}, []
    for run in dict.fromkeys(runs):
        found = ledger.records(run)
        if len(found) == len(run.stages()):
            records[run] = tuple(replace(one, stage={**one.stage, "method": run.method}) for one in found)
        else:
            failures.append(Failure(run, len(found), (reasons or {}).get(run, "it was not made")))
    return Outcome(records, tuple(failures))


def whole_runs(outcome: Outcome, runs: int) -> str:
    """How many of the runs are whole, and why others are not."""
    reasons: dict[str, int] = {}
    for failure in outcome.failures:
        reasons[failure.reason] = reasons.get(failure.reason, 0) + 1
    told = "".join(f"; {number}: {reason}" for reason, number in reasons.items())
    return f"{len(outcome.records)} of {runs} runs are whole{told}"
