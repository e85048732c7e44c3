"""The demo: methods on four synthetic domains, where each seed draws its own data."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from memgrow.data import synthetic_stream
from memgrow.evaluation.comparison import Comparison, RunResult
from memgrow.evaluation.history import History
from memgrow.learner import Learner
from memgrow.methods import find_method
from memgrow.models import ModelSettings
from memgrow.training.progress import Progress
from memgrow.training.settings import TrainingSettings

MODEL = ModelSettings(embedding=32, hidden=32, slots=32, perceptron=64)
TRAINING = TrainingSettings(rate=3e-3, epochs=8, patience=3)
METHODS = ("finetune", "finetune+vocab+memory", "multi-task")


@dataclass(frozen=True)
class Demo:
    """Histories by method and seed."""

    histories: Mapping[str, Mapping[int, History]]

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
        return {
            "seeds": len(seeds),
            "first_seed": seeds[0],
            "settings": {"model": asdict(MODEL), "training": asdict(TRAINING)},
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
        return cls(histories)


def run_demo(methods: Iterable[str], seeds: range, device: str, progress: Progress) -> Demo:
    """Learn the synthetic stream by each method with each seed."""
    histories: dict[str, dict[int, History]] = {find_method(method).name: {} for method in methods}
    for seed in seeds:
        stream = synthetic_stream(seed=seed)
        for method, by_seed in histories.items():
            learner = Learner.create(method, model=MODEL, training=TRAINING, seed=seed, device=device)
            by_seed[seed] = learner.learn(stream, progress=progress)
    return Demo(histories)
