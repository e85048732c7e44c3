"""Compare methods on a stream: plan the runs, make those that are missing, summarise them by method and seed.

A run is one method with one seed through the whole stream. Its result is a JSON file in the folder, so that the same
call goes on where an earlier one was stopped.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

import filelock
import torch

from memgrow.data import Stream
from memgrow.data.disk import atomic_write, finite, pack_json, sha256_of
from memgrow.data.domain import SHORT, domain_fingerprint
from memgrow.data.processes import process_pool
from memgrow.errors import DataError, MemgrowError, SettingsError
from memgrow.evaluation.baselines import REFERENCES, is_installed, run_baseline
from memgrow.evaluation.comparison import BASELINE, RETRAINING, Comparison, Failure, RunResult
from memgrow.evaluation.history import AccuracyMatrix, Stage
from memgrow.evaluation.ray_executor import LOCAL, PER_GPU, RayExecutor
from memgrow.evaluation.replies import evaluate_replies
from memgrow.learner import Learner
from memgrow.methods import RECOMMENDED_FOR_ENCODERS, MethodSettings, find_method
from memgrow.models import REPLY, ModelSettings
from memgrow.nn.device import allow_tf32, find_device, is_out_of_memory
from memgrow.training.checks import check_stage
from memgrow.training.settings import TrainingSettings, defaults_for_device

METHODS = (BASELINE, "finetune+vocab", "finetune+slots+vocab", "finetune+vocab+memory", RETRAINING)
REPLY_METHODS = (*METHODS[:3], "finetune+vocab+ema", RETRAINING)
ENCODER_METHODS = (BASELINE, RECOMMENDED_FOR_ENCODERS, "ridge", RETRAINING)  # for a pretrained encoder
FEW_EXAMPLES = 5000  # training examples of all runs: with fewer, starting processes takes longer than training
RETRAINING_PATIENCE = 6  # epochs, at least: retraining on everything has to converge


@dataclass(frozen=True)
class Settings:
    model: ModelSettings
    training: TrainingSettings
    options: MethodSettings = field(default_factory=MethodSettings)

    def to_json(self) -> dict[str, Any]:
        return dict(finite(asdict(self)))


@dataclass(frozen=True)
class Run:
    """One method, or baseline, with one seed."""

    method: str
    seed: int
    settings: Settings

    def __str__(self) -> str:
        return f"{self.method}, seed {self.seed}"


@dataclass(frozen=True)
class Material:
    """What all runs need."""

    stream: Stream
    device: str
    vectors: Path | None
    data: tuple[str, ...]  # fingerprints

    @classmethod
    def of(cls, stream: Stream, device: str, vectors: Path | None) -> "Material":
        words = sha256_of(vectors)[:SHORT] if vectors else ""
        return cls(stream, device, vectors and vectors.absolute(), (*map(domain_fingerprint, stream), words))

    @property
    def is_dialogue(self) -> bool:
        return any(domain.has_replies for domain in self.stream)


OnRun = Callable[[Run, RunResult | str, int, int], None]
"""Takes a run that has ended, its result or why it failed, how many have ended, and of how many."""


def compare(
    stream: Stream,
    methods: Sequence[str] = (),
    *,
    folder: str | Path,
    seeds: Sequence[int] = (0, 1, 2),
    settings: Settings | None = None,
    vectors: Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    on: str = LOCAL,
    on_run: OnRun | None = None,
) -> Comparison:
    """Compare methods with fine-tuning, retraining on everything and bags of words; records are kept in `folder`.

    Without settings the model is the paper's recurrent network, in sizes that suit the device. `workers` is the number
    of processes, `on` is "local", "ray" or the address of a Ray cluster.
    """
    check_comparable(stream)
    folder, seeds = Path(folder), list(seeds)
    if settings is None:
        usual = defaults_for_device(find_device(device), stream[0].has_replies)
        settings = Settings(usual.model, usual.training, usual.options)
    runs = plan(stream, methods or usual_methods(settings.model, stream[0].has_replies), seeds, settings)
    with ExitStack() as stack:
        executor = None if on == LOCAL else stack.enter_context(RayExecutor(on, device))
        kind = find_device(device).type if executor is None else executor.device
        material = Material.of(stream, kind, vectors)
        records = stack.enter_context(Records.opened(folder, material))
        found = {run: result for run in runs if (result := records.get(run)) is not None}
        missing = [run for run in runs if run not in found]
        failures = []
        outcomes = _outcomes(missing, material, workers=workers, executor=executor)
        for ended, (run, outcome) in enumerate(outcomes, 1):
            if isinstance(outcome, RunResult):
                found[run] = outcome
                records.put(run, outcome)
            else:
                failures.append(Failure(run.method, run.seed, outcome))
            if on_run is not None:
                on_run(run, outcome, ended, len(missing))
    results: dict[str, dict[int, RunResult]] = {}
    for run in runs:
        if run in found:
            results.setdefault(run.method, {})[run.seed] = found[run]
    for name in results.keys() & REFERENCES.keys():  # one run stands for all seeds where chance has no part
        if REFERENCES[name].sees_all:
            results[name] = dict.fromkeys(seeds, results[name][seeds[0]])
    return Comparison(results, tuple(failures), "bleu2" if material.is_dialogue else "accuracy")


def usual_methods(model: ModelSettings, replies: bool) -> tuple[str, ...]:
    """The methods that are compared unless others are named."""
    return ENCODER_METHODS if model.is_pretrained else REPLY_METHODS if replies else METHODS


def check_comparable(stream: Stream) -> None:
    """Refuse what some run would refuse: one domain, domains without test examples, labels that cannot be learned."""
    if len(stream) < 2:
        raise DataError("a comparison needs at least two domains: give more files, or --by COLUMN")
    for domain in stream:
        if not domain.test:
            raise DataError(f"{domain.name} has no test examples: give more rows, or a test file")
    stage = check_stage(stream[:1], None, None)
    for domain in stream[1:]:
        stage = check_stage([domain], stage.task, stage.labels)


def plan(stream: Stream, methods: Sequence[str], seeds: Sequence[int], settings: Settings) -> list[Run]:
    """The runs of a comparison, seed by seed; fine-tuning, retraining and baselines are always among them."""
    names = dict.fromkeys(find_method(name).name for name in (RETRAINING, BASELINE, *methods))
    for name in names:
        find_method(name).check(settings.model)
        if any(domain.has_replies for domain in stream):
            find_method(name).check_task(REPLY, settings.model)
    retraining = replace(settings, training=retraining_settings(settings.training, stream))
    runs = [Run(name, seed, retraining if name == RETRAINING else settings) for seed in seeds for name in names]
    labels = {label for domain in stream for label in domain.labels}
    if len(labels) > 1 and is_installed():
        for name, baseline in REFERENCES.items():
            runs += [Run(name, seed, settings) for seed in (seeds[:1] if baseline.sees_all else seeds)]
    return runs


def retraining_settings(training: TrainingSettings, stream: Stream) -> TrainingSettings:
    """More patience and twice the epochs, so that retraining on everything converges."""
    examples, validation = (sum(len(getattr(one, part)) for one in stream) for part in ("train", "validation"))
    training = training.resolve(ceil(examples / training.batch), validation, first=True)
    if training.schedule != "constant":  # the rate falls to zero in the last epoch
        return replace(training, patience=training.max_epochs)
    patience = max(RETRAINING_PATIENCE, training.patience_for(validation))
    return replace(training, patience=patience, epochs=2 * training.max_epochs)


def not_converged(comparison: Comparison, training: TrainingSettings) -> str:
    """A sentence if retraining, by these settings, still improved when a seed's epochs were over."""
    most, patience = training.max_epochs, training.patience_for(0)
    results = comparison.results.get(RETRAINING, {}).values()
    improving = any(one.epochs >= most and one.epochs - one.best_epoch < patience for one in results)
    if training.schedule != "constant" or not improving:
        return ""
    return f"{RETRAINING} had not converged after {most} epochs: --set epochs={most} gives it more"


# One run


def make_run(run: Run, material: Material) -> RunResult | str:
    """Make a run in this process; a string is the reason why it failed."""
    threads = torch.get_num_threads()
    if material.device == "cpu":
        torch.set_num_threads(1)  # the result of a seed must not depend on the number of workers
    allow_tf32(torch.device(material.device))
    try:
        if run.method in REFERENCES:
            return RunResult(*run_baseline(run.method, material.stream, run.seed))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", UserWarning)
            result = _learn(run, material)
        return replace(result, notes=tuple(dict.fromkeys(str(one.message) for one in told)))
    except Exception as error:
        return _reason(error)
    finally:
        torch.set_num_threads(threads)


def _learn(run: Run, material: Material) -> RunResult:
    stream, settings = material.stream, run.settings
    learner = Learner.create(
        run.method,
        model=settings.model,
        training=settings.training,
        options=settings.options,
        seed=run.seed,
        device=material.device,
    )
    matrix, perplexities = AccuracyMatrix(), dict[str, float]()

    def score_replies(stage: Stage, new: bool) -> None:
        nonlocal matrix
        if material.is_dialogue:
            figures = {domain.name: evaluate_replies(learner, domain) for domain in stream}
            perplexities.update({name: one.perplexity for name, one in figures.items()})
            matrix = matrix.with_row(stage.learned, {name: one.bleu2 / 100 for name, one in figures.items()})

    history = learner.learn(stream, on_stage=score_replies, vectors=material.vectors)
    return RunResult.of_history(history, matrix if material.is_dialogue else None, perplexities)


def _reason(error: BaseException) -> str:
    """Why a run failed, in one line."""
    if isinstance(error, MemgrowError):
        return str(error)
    if isinstance(error, BrokenProcessPool):
        return "a worker process died, perhaps out of memory: use fewer workers"
    if is_out_of_memory(error):
        return "out of memory: use fewer workers, or a smaller batch, hidden, slots or max_words"
    return f"{type(error).__name__}: {error}".splitlines()[0]


# Many runs


def _outcomes(
    runs: Sequence[Run], material: Material, *, workers: int | None, executor: Executor | None
) -> Iterator[tuple[Run, RunResult | str]]:
    """Make the runs, in this process, in processes of this machine or by an executor, as they end."""
    count = min(workers or _suitable_workers(runs, material), len(runs))
    if executor is None and count <= 1:
        yield from ((run, make_run(run, material)) for run in runs)
        return
    with nullcontext(executor) if executor is not None else process_pool(count) as pool:
        futures: dict[Future[RunResult | str], Run] = {pool.submit(make_run, run, material): run for run in runs}
        for future in as_completed(futures):
            error = future.exception()
            yield futures[future], future.result() if error is None else _reason(error)


def _suitable_workers(runs: Sequence[Run], material: Material) -> int:
    if sum(len(domain.train) for domain in material.stream) * len(runs) < FEW_EXAMPLES:
        return 1
    if material.device == "cuda":
        return PER_GPU
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Records


@dataclass(frozen=True)
class Records:
    """The results of finished runs: one JSON file each."""

    folder: Path
    material: Material

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, material: Material) -> Iterator["Records"]:
        """The records of a folder, which no other process can use meanwhile."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with filelock.FileLock(folder / ".lock", timeout=0):
                yield cls(folder, material)
        except filelock.Timeout:
            raise SettingsError(f"another comparison is writing to {folder}: wait, or choose another folder") from None

    def get(self, run: Run) -> RunResult | None:
        """The result of a run; a damaged file counts as none."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            result = json.loads(self._path(run).read_bytes())["result"]
            return RunResult.from_json(result)
        return None

    def put(self, run: Run, result: RunResult) -> None:
        about = {"method": run.method, "seed": run.seed, "settings": run.settings.to_json()}
        atomic_write(self._path(run), pack_json({**about, "result": result.to_json()}))

    def _path(self, run: Run) -> Path:
        """Named by method, seed, and a hash of all that decides the result."""
        baseline = REFERENCES.get(run.method)
        settings = dict(baseline.settings) if baseline else run.settings.to_json()
        parts = json.dumps({"settings": settings, "data": self.material.data}, sort_keys=True)
        digest = hashlib.sha256(parts.encode()).hexdigest()[:12]
        return self.folder / f"{run.method.replace(' ', '-').replace(',', '')}.seed{run.seed}.{digest}.json"
