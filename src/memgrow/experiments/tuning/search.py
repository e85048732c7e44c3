"""A search for settings: trials by Optuna, whose stages are jobs like those of any run, judged on validation data.

A trial is the runs of one choice of settings, one for each seed. Its score after a stage is the mean over the domains
learnt so far of the score on their validation examples. One whose score is below the median of the earlier trials at
the same stage is given up. Trials are in a journal and their stages in a store, so that a search can go on.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from memgrow.data import Stream
from memgrow.errors import DataError, MissingExtraError, SettingsError
from memgrow.experiments.comparison import Settings
from memgrow.experiments.executor import Executor, Said, Started
from memgrow.experiments.grid import Grid
from memgrow.experiments.plan import Job, JobQueue, Result, jobs_for
from memgrow.experiments.run import Run
from memgrow.experiments.tuning.space import Space, with_values
from memgrow.experiments.tuning.trials import COMPLETE, FAILED, PRUNED, Found, SearchWatcher, Tried, score_of
from memgrow.methods import find_method
from memgrow.progress import Step

HOW_TO_GET = "a search needs Optuna and scikit-learn: run `pip install 'memgrow[tune]'`"
JOURNAL = "study.journal"  # in the folder of a search
AT_RANDOM = 8  # trials before what was learnt from them decides on the next
BEFORE_PRUNING = 4  # trials that are never given up, as there is no median yet
REASON = "reason"  # of a trial that has failed: one without it was left by a command that was stopped
STATES = {"COMPLETE": COMPLETE, "PRUNED": PRUNED, "FAIL": FAILED}


def find_optuna() -> Any:
    """Optuna; who lacks it is told what to install."""
    try:
        import optuna
        import sklearn  # noqa: F401  by which Optuna finds out what mattered
    except ImportError as error:
        raise MissingExtraError(HOW_TO_GET) from error
    return optuna


@dataclass
class Running:
    """A trial that is under way."""

    trial: Any  # Optuna's
    runs: tuple[Run, ...]
    stack: int
    scores: list[float] = field(default_factory=list)
    ended: bool = False


class Search:
    """Looks for the best settings of a method within a space, around the given settings.

    The grid says where stages are made and kept; its stream must have no test examples.
    """

    def __init__(
        self,
        grid: Grid,
        method: str,
        settings: Settings,
        space: Space,
        *,
        folder: Path,
        seeds: int = 1,
        first_seed: int = 0,
        watcher: SearchWatcher,
    ) -> None:
        optuna = find_optuna()
        self._check(grid.stream, method, space)
        self.grid, self.method, self.settings, self.space = grid, method, settings, space
        self.seeds, self.watcher = range(first_seed, first_seed + seeds), watcher
        self._optuna = optuna
        self._running: list[Running] = []
        self._making: dict[Job, Running] = {}
        self._places: dict[Job, str] = {}
        self._notes: set[str] = set()
        self._folder = folder

    @staticmethod
    def _check(stream: Stream, method: str, space: Space) -> None:
        if find_method(method).afresh:
            raise SettingsError(f"{method} learns no domain after another: a search is for methods that do")
        if any(domain.test for domain in stream):
            raise DataError("a search must not see test examples: give it `without_test(stream)`")
        if len(stream) < 2:
            raise DataError(
                "a search needs at least two domains, as methods differ from the second on: give more files"
            )
        for domain in stream:
            if not domain.validation:
                raise DataError(f"{domain.name} has no validation examples, by which settings are chosen: give some")
        if not space:
            raise SettingsError("this method has no setting to be searched: choose another")

    def run(self, trials: int) -> Found:
        """Make trials until there are that many, those of earlier calls included."""
        with self.grid.store.at_work():
            study = self._study()
            self._take_up(study)
            self.watcher.begin(len(self._counted(study)), trials)
            work = sum(job.total for job in jobs_for(self._runs(self.settings), self.grid.ledger, self.grid.stack))
            count = trials * len(self.seeds)  # side by side, at most
            with self.grid.executor(self._report, count, work * trials) as executor:
                self._make(study, executor, trials)
            self._drop_models(all_of_them=True)
        return Found(tuple(self._tried(study)), self._importances(study), len(self.seeds), self.space)

    def _make(self, study: Any, executor: Executor, trials: int) -> None:
        while True:
            while executor.free and (ready := self._next(study, trials)):
                running, job = ready
                self._making[job] = running
                executor.submit(job)
            results = executor.results()
            if not results:
                return
            for result in results:
                self._received(study, result)
            self._drop_models()

    def _next(self, study: Any, trials: int) -> tuple[Running, Job] | None:
        """A job that can be started: of the oldest trial that has one, else of a new trial."""
        for running in self._running:
            for job in self._ready(running):
                return running, job
        if len(self._counted(study)) + len(self._running) >= trials:
            return None
        self._ask(study)
        return self._next(study, trials)

    def _ready(self, running: Running) -> Iterator[Job]:
        """The jobs of a trial that wait for no other, and that no trial makes just now."""
        made = {task.key for job in self._making for task in job.tasks}
        queue = JobQueue(jobs_for(running.runs, self.grid.ledger, running.stack))
        while (job := queue.take()) is not None:
            if not any(task.key in made for task in job.tasks):
                yield job

    def _ask(self, study: Any) -> None:
        """Begin a trial."""
        # A sampler for each trial: a search that goes on then tries what an unbroken one would have tried.
        number = len(self._counted(study)) + len(self._running)
        seed = (self.seeds.start * 1_000_003 + number) % 2**32  # numpy takes no larger one
        study.sampler = self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=AT_RANDOM)
        trial = study.ask()
        values = {name: span.suggest(trial, name) for name, span in self.space.items()}
        running = Running(trial, self._runs(with_values(self.settings, values)), self.grid.stack)
        self._running.append(running)
        self._judge(study, running)  # an earlier command may have made all of it

    def _runs(self, settings: Settings) -> tuple[Run, ...]:
        parts = (settings.model, settings.training, settings.options)
        return tuple(Run(self.method, self.grid.stream.names, seed, *parts) for seed in self.seeds)

    def _received(self, study: Any, result: Result) -> None:
        running = self._making.pop(result.job)
        self._places.pop(result.job, None)
        if running.ended:  # it was given up for what another seed had shown
            return
        if result.reason is not None and len(result.job.tasks) > 1:
            running.stack = 1  # they may have been too many at once
        elif result.reason is not None:
            running.trial.set_user_attr(REASON, result.reason)
            self._end(study, running, "FAIL")
        for one in list(self._running):  # trials may share a stage
            self._judge(study, one)

    def _judge(self, study: Any, running: Running) -> None:
        """Score the stages that all seeds have finished, and end the trial if that was the last or it is behind."""
        if running.ended:
            return None
        stages = [run.stages() for run in running.runs]
        for number in range(len(running.scores), len(stages[0])):
            records = [self.grid.ledger.record(each[number]) for each in stages]
            found = [record for record in records if record is not None]
            if len(found) < len(records):
                return None
            names = stages[0][number].learns
            score = fmean(score_of(record, names) for record in found)
            running.scores.append(score)
            running.trial.report(score, number + 1)
            self.watcher.moved(running.trial.number, (number + 1) / len(stages[0]), "")
            if not isfinite(score):
                running.trial.set_user_attr(REASON, "its score is no number")
                return self._end(study, running, "FAIL")
            if number + 1 < len(stages[0]) and running.trial.should_prune():
                return self._end(study, running, "PRUNED")
        return self._end(study, running, "COMPLETE")

    def _end(self, study: Any, running: Running, state: str) -> None:
        if running.ended:
            return
        running.ended = True
        kind = getattr(self._optuna.trial.TrialState, state)
        study.tell(running.trial, running.scores[-1] if state == "COMPLETE" else None, state=kind)
        self._running = [one for one in self._running if one is not running]
        tried = self._tried(study)
        this = next(one for one in tried if one.number == running.trial.number)
        self.watcher.ended(this, Found(tuple(tried), {}, len(self.seeds), self.space).best)

    def _report(self, job: Job, said: Said) -> None:
        if isinstance(said, str):
            if said not in self._notes:
                self._notes.add(said)
                self.watcher.note(said)
            return
        running = self._making[job]
        share = 0.0
        if isinstance(said, Started):
            self._places[job] = said.where
        elif isinstance(said, Step):
            share = ((said.epoch - 1) + said.batch / max(said.batches, 1)) / said.epochs
        done = (len(running.scores) + share) / len(self.grid.stream)
        self.watcher.moved(running.trial.number, done, self._places.get(job, ""))

    def _drop_models(self, all_of_them: bool = False) -> None:
        """Remove the learners that no trial goes on from any more."""
        needed = {task.key for job in self._making for task in job.tasks}
        for run in (run for running in self._running for run in running.runs):
            missing = [stage for stage in run.stages() if self.grid.ledger.record(stage) is None]
            needed |= {self.grid.ledger.key(one) for stage in missing for one in _ancestors(stage)}
        if self._shares_first and not all_of_them:
            needed |= {self.grid.ledger.key(run.upto(1)) for run in self._runs(self.settings)}
        models = self.grid.store.model("")
        for path in models.iterdir() if models.is_dir() else ():
            if path.name not in needed and not path.name.startswith("."):
                self.grid.store.drop_model(path.name)

    @property
    def _shares_first(self) -> bool:
        """Whether all trials have their first stage in common."""
        return all(name.startswith("options.") for name in self.space)

    # Optuna's part

    def _study(self) -> Any:
        """The trials of this very search: another method, other data or ranges are another study of the same file."""
        optuna = self._optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        about = {
            "method": self.method,
            "settings": asdict(self.settings),
            "space": {name: asdict(span) for name, span in self.space.items()},
            "seeds": list(self.seeds),
            "data": [dict(self.grid.ledger.data), dict(self.grid.ledger.held_out)],
        }
        name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
        journal = optuna.storages.journal.JournalFileBackend(str(self._folder / JOURNAL))
        return optuna.create_study(
            study_name=name,
            storage=optuna.storages.JournalStorage(journal),
            load_if_exists=True,
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=BEFORE_PRUNING),
        )

    def _take_up(self, study: Any) -> None:
        """Put what a stopped command was at first in the queue; its finished stages are in the store."""
        for trial in study.get_trials(states=(self._optuna.trial.TrialState.RUNNING,)):
            study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)
            if trial.params:
                study.enqueue_trial(trial.params)

    def _counted(self, study: Any) -> list[Any]:
        """The trials that have ended, but for those that a command left."""
        return [
            trial
            for trial in study.get_trials(deepcopy=False)
            if trial.state.name in STATES and (trial.state.name != "FAIL" or REASON in trial.user_attrs)
        ]

    def _tried(self, study: Any) -> list[Tried]:
        return [
            Tried(
                trial.number,
                dict(trial.params),
                tuple(trial.intermediate_values[step] for step in sorted(trial.intermediate_values)),
                STATES[trial.state.name],
                trial.user_attrs.get(REASON, ""),
            )
            for trial in self._counted(study)
        ]

    def _importances(self, study: Any) -> dict[str, float]:
        """By fANOVA; none where there are too few trials to say, or all ended alike."""
        complete = {trial.value for trial in self._counted(study) if trial.state.name == "COMPLETE"}
        if len(complete) < 2:
            return {}
        evaluator = self._optuna.importance.FanovaImportanceEvaluator(seed=0)
        found = self._optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {name: float(found.get(name, 0.0)) for name in sorted(self.space, key=lambda one: -found.get(one, 0.0))}


def _ancestors(stage: Run) -> Iterator[Run]:
    """The stages, notes included, that a stage goes on from."""
    while (parent := stage.parent()) is not None:
        stage = parent
        yield stage
