"""The results of a comparison: scores by method and seed, their means and spreads, paired differences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import inf, isfinite
from statistics import fmean, geometric_mean, stdev
from typing import Any

from memgrow.data.disk import finite
from memgrow.evaluation.baselines import REFERENCES
from memgrow.evaluation.history import AccuracyMatrix, History
from memgrow.evaluation.metrics import Paired, paired_over_seeds
from memgrow.evaluation.tables import MEASURES, Measure
from memgrow.methods import find_method

BASELINE, RETRAINING = "finetune", "multi-task"  # the methods that every other one is measured against


def sees_old_data(name: str) -> bool:
    """Whether a method or baseline sees data of earlier domains again."""
    if name in REFERENCES:
        return REFERENCES[name].sees_all
    return find_method(name).joint or keeps_rows(name)


def keeps_rows(name: str) -> bool:
    """Whether a method stores rows of earlier domains."""
    return name not in REFERENCES and find_method(name).keeps_rows


@dataclass(frozen=True)
class RunResult:
    """One run through a stream: scores after every stage, cost, and for replies the final perplexities."""

    matrix: AccuracyMatrix
    parameters: int
    seconds: float
    perplexities: Mapping[str, float] = field(default_factory=dict)
    epochs: int = 0  # of the last stage
    best_epoch: int = 0
    notes: Sequence[str] = field(default=(), compare=False)  # warnings of the run

    @classmethod
    def of_history(
        cls, history: History, matrix: AccuracyMatrix | None = None, perplexities: Mapping[str, float] | None = None
    ) -> "RunResult":
        last, seconds = history.stages[-1], sum(stage.seconds for stage in history.stages)
        costs = last.parameters, seconds, perplexities or {}, last.epochs, last.best_epoch
        return cls(matrix or history.matrix, *costs)

    def figures(self) -> dict[str, float | None]:
        replies = {"perplexity": geometric_mean(self.perplexities.values())} if self.perplexities else {}
        return {
            "average": self.matrix.average(),
            "forgetting": self.matrix.forgetting(),
            **replies,
            "parameters": float(self.parameters),
            "seconds": self.seconds,
        }

    def to_json(self) -> dict[str, Any]:
        return dict(finite({**vars(self), "matrix": self.matrix.to_json()}))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "RunResult":
        perplexities = {name: inf if one is None else float(one) for name, one in value["perplexities"].items()}
        return cls(**{**value, "matrix": AccuracyMatrix.from_json(value["matrix"]), "perplexities": perplexities})


@dataclass(frozen=True)
class Failure:
    method: str
    seed: int
    reason: str


@dataclass(frozen=True)
class OverSeeds:
    """A figure of one method: mean, standard deviation, and its value for each seed that has one."""

    mean: float | None
    spread: float | None
    seeds: Mapping[int, float]

    @classmethod
    def of(cls, values: Mapping[int, float | None]) -> "OverSeeds":
        seeds = {seed: value for seed, value in values.items() if value is not None}
        known = list(seeds.values())
        spread = stdev(known) if len(known) > 1 and all(map(isfinite, known)) else None
        return cls(fmean(known) if known else None, spread, seeds)


@dataclass(frozen=True)
class Comparison:
    """Results by method and seed. Failed runs are left out and listed in `failures`."""

    results: Mapping[str, Mapping[int, RunResult]]
    failures: tuple[Failure, ...] = ()
    kind: str = "accuracy"  # or bleu2, of replies

    @property
    def measure(self) -> Measure:
        return MEASURES[self.kind]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Methods by final average, best first; those that see old data come after the others."""
        averages = {name: figures["average"].mean or 0.0 for name, figures in self.summary.items()}
        return tuple(sorted(averages, key=lambda name: (sees_old_data(name), -averages[name])))

    @cached_property
    def summary(self) -> dict[str, dict[str, OverSeeds]]:
        summary = {}
        for method, results in self.results.items():
            rows = {seed: result.figures() for seed, result in results.items()}
            names = next(iter(rows.values()))
            summary[method] = {name: OverSeeds.of({seed: row[name] for seed, row in rows.items()}) for name in names}
        return summary

    def mean_matrix(self, method: str) -> AccuracyMatrix:
        """The scores of a method after every stage, averaged over the seeds."""
        matrices = [result.matrix for result in self.results[method].values()]
        mean = AccuracyMatrix()
        for stage, row in enumerate(matrices[0].rows):
            scores = {name: fmean(matrix.rows[stage].scores[name] for matrix in matrices) for name in row.scores}
            mean = mean.with_row(row.learned, scores)
        return mean

    def against(self, method: str, other: str = BASELINE) -> Paired | None:
        """The difference in average score, paired over common seeds; without scipy it has no interval."""
        if method == other or not {method, other} <= set(self.results):
            return None
        ours, theirs = (self.summary[name]["average"].seeds for name in (method, other))
        pairs = [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]
        return paired_over_seeds(*zip(*pairs, strict=True)) if pairs else None

    def to_json(self) -> dict[str, Any]:
        """All figures by method; null is a number too large for a float."""
        return dict(finite({method: self._figures(method) for method in self.order}))

    def _figures(self, method: str) -> dict[str, Any]:
        results = self.results[method]
        against = {other: self.against(method, other) for other in (BASELINE, RETRAINING)}
        perplexities = {seed: result.perplexities for seed, result in results.items() if result.perplexities}
        return {
            **{name: asdict(figure) for name, figure in self.summary[method].items()},
            "against": {other: asdict(paired) for other, paired in against.items() if paired is not None},
            "matrices": {seed: result.matrix.to_json() for seed, result in results.items()},
            **({"perplexities": perplexities} if perplexities else {}),
        }

    @classmethod
    def from_json(cls, methods: Mapping[str, Any], kind: str = "accuracy") -> "Comparison":
        """The comparison that `to_json` wrote, without its failures."""
        results: dict[str, dict[int, RunResult]] = {}
        for name, figures in methods.items():
            seeds = results[name if name in REFERENCES else find_method(name, retired=True).name] = {}
            for seed, matrix in figures["matrices"].items():
                value = {name: figures[name]["seeds"][seed] for name in ("parameters", "seconds")}
                value |= {"matrix": matrix, "perplexities": figures.get("perplexities", {}).get(seed, {})}
                seeds[int(seed)] = RunResult.from_json(value)
        return cls(results, kind=kind)
