"""The demo: methods on four domains in turn, and an update that is refused. Each seed draws its own synthetic data."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memgrow.data import Stream
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


def run_demo(
    streams: Callable[[int], Stream],
    methods: Iterable[str],
    seeds: range,
    settings: Settings,
    *,
    device: str,
    progress: Progress,
) -> dict[str, Any]:
    """Learn the stream of each seed by each method; the histories as JSON, from which `comparison_of` is made."""
    runs: dict[str, list[dict[str, Any]]] = {find_method(method).name: [] for method in methods}
    for seed in seeds:
        stream = streams(seed)
        for method, histories in runs.items():
            training = retraining_settings(settings.training, stream) if method == RETRAINING else settings.training
            learner = Learner.create(method, **{**vars(settings), "training": training}, seed=seed, device=device)
            histories.append(learner.learn(stream, progress=progress).to_json())
    return {"seeds": len(seeds), "first_seed": seeds[0], "settings": settings.to_json(), "runs": runs}


def comparison_of(demo: Mapping[str, Any]) -> Comparison:
    """The comparison of what `run_demo` returned, or what demo.json holds."""
    results = {}
    for method, histories in demo["runs"].items():
        runs = [RunResult.of_history(History.from_json(one)) for one in histories]
        results[find_method(method).name] = dict(enumerate(runs, demo["first_seed"]))
    return Comparison(results)


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
