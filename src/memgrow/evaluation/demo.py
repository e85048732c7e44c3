"""The demo: methods on four domains in turn, and an update that is refused. Each seed draws its own synthetic data."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from memgrow.data import Stream, synthetic_stream
from memgrow.errors import ForgettingError
from memgrow.evaluation.compare import Settings, retraining_settings
from memgrow.evaluation.comparison import BASELINE, RETRAINING, Comparison, RunResult
from memgrow.evaluation.history import History
from memgrow.learner import Learner
from memgrow.methods import find_method
from memgrow.models import ModelSettings
from memgrow.storage.versions import list_versions
from memgrow.training.progress import Progress
from memgrow.training.settings import TrainingSettings

MODEL = ModelSettings(embedding=32, hidden=32, slots=32, perceptron=64)
TRAINING = TrainingSettings(rate=3e-3, epochs=8, patience=3)
METHODS = (BASELINE, "finetune+vocab+memory", RETRAINING)
MAX_FORGETTING = 5.0  # points, of the update that is refused


@dataclass(frozen=True)
class Demo:
    """Histories by method and seed."""

    histories: Mapping[str, Mapping[int, History]]
    settings: Settings

    @cached_property
    def comparison(self) -> Comparison:
        return Comparison(
            {
                method: {seed: RunResult.of_history(history) for seed, history in by_seed.items()}
                for method, by_seed in self.histories.items()
            }
        )

    def to_json(self) -> dict[str, Any]:
        seeds = list(next(iter(self.histories.values())))
        settings = self.settings.to_json()
        return {
            "seeds": len(seeds),
            "first_seed": seeds[0],
            "settings": {"model": settings["model"], "training": settings["training"]},
            "summary": {
                method: {name: {"mean": figure.mean, "spread": figure.spread} for name, figure in figures.items()}
                for method, figures in self.comparison.summary.items()
            },
            "runs": {
                method: [history.to_json() for history in by_seed.values()]
                for method, by_seed in self.histories.items()
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Demo":
        first = value["first_seed"]
        histories = {
            find_method(method).name: {first + number: History.from_json(run) for number, run in enumerate(runs)}
            for method, runs in value["runs"].items()
        }
        return cls(histories, Settings(MODEL, TRAINING))


def run_demo(
    methods: Iterable[str],
    seeds: range,
    device: str,
    progress: Progress,
    *,
    streams: Callable[[int], Stream] | None = None,
    settings: Settings | None = None,
) -> Demo:
    """Learn the stream of each seed, by default the synthetic one, by each method."""
    settings = settings or Settings(MODEL, TRAINING)
    histories: dict[str, dict[int, History]] = {find_method(method).name: {} for method in methods}
    for seed in seeds:
        stream = streams(seed) if streams else synthetic_stream(seed=seed)
        for method, by_seed in histories.items():
            training = retraining_settings(settings.training, stream) if method == RETRAINING else settings.training
            given = {**vars(settings), "training": training}
            by_seed[seed] = Learner.create(method, **given, seed=seed, device=device).learn(stream, progress=progress)
    return Demo(histories, settings)


@dataclass(frozen=True)
class Gate:
    """What came of an update that may cost earlier domains `MAX_FORGETTING` points at most."""

    learned: str
    offered: str
    before: float
    after: float
    digests: tuple[str | None, str | None]  # of the saved model, before and after

    @property
    def refused(self) -> bool:
        return self.digests[0] == self.digests[1]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "max_forgetting": MAX_FORGETTING, "refused": self.refused}


def try_gate(
    stream: Stream, settings: Settings, folder: Path, *, seed: int, device: str, progress: Progress | None = None
) -> Gate:
    """Fine-tune on a first domain, save that model, and offer it the second one behind the gate."""
    first, second = stream[:2]
    learner = Learner.create(BASELINE, **vars(settings), seed=seed, device=device)
    given: Any = {"folder": folder, "progress": progress, "overwrite": True}
    learner.adapt(first, **given)
    digest = list_versions(folder)[0].digest
    before = learner.evaluate(first)[first.name]
    try:
        learner.adapt(second, watch=[first], max_forgetting=MAX_FORGETTING, **given)
        after = learner.evaluate(first)[first.name]
    except ForgettingError as error:
        after = error.after[first.name]
    return Gate(first.name, second.name, before, after, (digest, list_versions(folder)[0].digest))
