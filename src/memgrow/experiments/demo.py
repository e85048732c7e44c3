"""The synthetic stream, learnt by several methods and seeds: what each forgets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from memgrow.data import synthetic_stream
from memgrow.history import History
from memgrow.learner import Learner
from memgrow.methods import MethodSettings, find_method
from memgrow.metrics import AccuracyMatrix
from memgrow.models import ModelSettings
from memgrow.progress import Progress
from memgrow.training.loop import TrainingSettings

MODEL = ModelSettings(embedding=32, hidden=32, slots=32, perceptron=64)
TRAINING = TrainingSettings(rate=3e-3, epochs=8, patience=3)
METHODS = ("F", "F+M+V")


@dataclass(frozen=True)
class Comparison:
    """The histories of each method, one for each seed."""

    runs: Mapping[str, Sequence[History]]
    first_seed: int = 0

    def mean_matrix(self, method: str) -> AccuracyMatrix:
        """The accuracy matrix of a method, averaged over the seeds."""
        matrices = [history.matrix for history in self.runs[method]]
        mean = AccuracyMatrix()
        for stage, row in enumerate(matrices[0].rows):
            scores = {name: fmean(matrix.rows[stage].scores[name] for matrix in matrices) for name in row.scores}
            mean = mean.with_row(row.learned, scores)
        return mean

    def summary(self) -> dict[str, dict[str, dict[str, float]]]:
        """Mean and spread over the seeds of average accuracy, forgetting, and parameters and seconds at the end."""
        return {
            method: {
                name: _spread(values)
                for name, values in {
                    "average": [history.matrix.average() or 0.0 for history in runs],
                    "forgetting": [history.matrix.forgetting() or 0.0 for history in runs],
                    "parameters": [float(history.stages[-1].parameters) for history in runs],
                    "seconds": [sum(stage.seconds for stage in history.stages) for history in runs],
                }.items()
            }
            for method, runs in self.runs.items()
        }

    def to_json(self) -> dict[str, Any]:
        settings = {"model": asdict(MODEL), "training": asdict(TRAINING)}
        runs = {method: [history.to_json() for history in runs] for method, runs in self.runs.items()}
        return {
            "seeds": len(next(iter(self.runs.values()))),
            "first_seed": self.first_seed,
            "settings": settings,
            "summary": self.summary(),
            "runs": runs,
        }


def compare(methods: Iterable[str], seeds: int, first_seed: int, device: str, progress: Progress) -> Comparison:
    """Learn the synthetic stream by each method, with each seed for data and model alike."""
    runs: dict[str, list[History]] = {find_method(method).name: [] for method in methods}
    for seed in range(first_seed, first_seed + seeds):
        stream = synthetic_stream(seed=seed)
        for method, histories in runs.items():
            learner = Learner.create(
                method, model=MODEL, training=TRAINING, options=MethodSettings(), seed=seed, device=device
            )
            histories.append(learner.learn(stream, progress=progress))
    return Comparison(runs, first_seed)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"mean": fmean(values), "spread": stdev(values) if len(values) > 1 else 0.0}
