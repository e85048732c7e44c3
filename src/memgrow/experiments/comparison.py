"""Methods side by side on one stream: what each ends with, what it forgets, what it costs, seed by seed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import fsum, isfinite
from statistics import fmean, geometric_mean, stdev
from typing import Any

import numpy as np

from memgrow.data import Stream
from memgrow.errors import SettingsError
from memgrow.experiments.comparison_setup import LABELS, Kind, perplexities
from memgrow.experiments.grid import Failure, Outcome
from memgrow.experiments.run import Record, Run
from memgrow.methods import RECOMMENDED, MethodSettings, find_method
from memgrow.metrics import AccuracyMatrix
from memgrow.metrics.significance import Paired, paired_over_seeds, sign_flip
from memgrow.models import ModelSettings
from memgrow.storage import finite
from memgrow.training.loop import TrainingSettings

BASELINE, RETRAINING = "F", "multi-task"  # what every method is to be measured by
METHODS = tuple(dict.fromkeys((BASELINE, "F+V", "F+M+V", RECOMMENDED, RETRAINING)))


@dataclass(frozen=True)
class Settings:
    """What all runs of a comparison share."""

    model: ModelSettings = LABELS.model
    training: TrainingSettings = LABELS.training
    options: MethodSettings = field(default_factory=MethodSettings)

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = finite(asdict(self))
        return plain


def runs_of(
    stream: Stream, methods: Iterable[str], seeds: Iterable[int], settings: Settings
) -> dict[str, dict[int, Run]]:
    """The runs of each method by seed; fine-tuning and retraining on everything are always among the methods."""
    names = dict.fromkeys(find_method(name).name for name in (BASELINE, *methods, RETRAINING))
    parts = (settings.model, settings.training, settings.options)
    return {name: {seed: Run(name, stream.names, seed, *parts) for seed in seeds} for name in names}


@dataclass(frozen=True)
class Walk:
    """One run: its matrix of scores, what it took, and of replies their perplexities at the end."""

    matrix: AccuracyMatrix
    parameters: int
    seconds: float
    perplexities: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Sequence[Record], kind: Kind = LABELS) -> "Walk":
        matrix = AccuracyMatrix()
        for record in records:
            matrix = matrix.with_row(record.stage.learned, kind.scores(record))
        seconds = sum(record.stage.seconds for record in records)
        return cls(matrix, records[-1].stage.parameters, seconds, perplexities(records[-1]))

    def figures(self) -> dict[str, float | None]:
        replies = {"perplexity": geometric_mean(self.perplexities.values())} if self.perplexities else {}
        return {
            "average": self.matrix.average(),
            "forgetting": self.matrix.forgetting(),
            **replies,
            "parameters": float(self.parameters),
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Comparison:
    """The walks of each method, by seed. A seed that failed is not among them."""

    walks: Mapping[str, Mapping[int, Walk]]
    failures: tuple[Failure, ...] = ()
    kind: Kind = LABELS

    @classmethod
    def of(cls, runs: Mapping[str, Mapping[int, Run]], outcome: Outcome, kind: Kind = LABELS) -> "Comparison":
        made = outcome.records
        found = {
            method: {seed: Walk.of(made[run], kind) for seed, run in by_seed.items() if run in made}
            for method, by_seed in runs.items()
        }
        return cls({method: walks for method, walks in found.items() if walks}, outcome.failures, kind)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Methods by what they end with, the best first; those that see all data at once behind the others."""
        averages = {method: self.summary[method]["average"]["mean"] or 0.0 for method in self.walks}
        return tuple(sorted(self.walks, key=lambda name: (find_method(name).together, -averages[name])))

    @cached_property
    def summary(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Mean, spread and every seed's value of each figure."""
        figures = {
            method: {seed: walk.figures() for seed, walk in walks.items()} for method, walks in self.walks.items()
        }
        return {
            method: {
                name: _summed({seed: row[name] for seed, row in rows.items()}) for name in next(iter(rows.values()))
            }
            for method, rows in figures.items()
        }

    def mean_matrix(self, method: str) -> AccuracyMatrix:
        """The scores of a method after every stage, averaged over the seeds."""
        matrices = [walk.matrix for walk in self.walks[method].values()]
        mean = AccuracyMatrix()
        for stage, row in enumerate(matrices[0].rows):
            scores = {name: fmean(matrix.rows[stage].scores[name] for matrix in matrices) for name in row.scores}
            mean = mean.with_row(row.learned, scores)
        return mean

    def against(self, method: str, other: str = BASELINE) -> Paired | None:
        """The difference in average score, paired over the seeds that both have; intervals need scipy."""
        if method == other or not {method, other} <= set(self.walks):
            return None
        ours, theirs = (self.summary[name]["average"]["seeds"] for name in (method, other))
        both = [seed for seed in ours if seed in theirs]
        if not both:
            return None
        a, b = [ours[seed] for seed in both], [theirs[seed] for seed in both]
        try:
            return paired_over_seeds(a, b)
        except SettingsError:
            differences = [x - y for x, y in zip(a, b, strict=True)]
            flipped = sign_flip(np.array(differences))
            return Paired(fmean(differences), _spread(differences), len(both), None, None, None, flipped)

    def to_json(self) -> dict[str, Any]:
        """All figures; null stands for a number that is beyond a float, as a perplexity may be."""
        plain: dict[str, Any] = finite(self._figures())
        return plain

    def _figures(self) -> dict[str, Any]:
        return {
            method: {
                **self.summary[method],
                "against": {
                    other: paired.to_json()
                    for other in (BASELINE, RETRAINING)
                    if (paired := self.against(method, other)) is not None
                },
                "matrices": {seed: walk.matrix.to_json() for seed, walk in self.walks[method].items()},
                **self._perplexities(method),
            }
            for method in self.order
        }

    def _perplexities(self, method: str) -> dict[str, Any]:
        by_seed = {seed: walk.perplexities for seed, walk in self.walks[method].items() if walk.perplexities}
        return {"perplexities": by_seed} if by_seed else {}


def _summed(values: Mapping[int, float | None]) -> dict[str, Any]:
    seeds = {seed: value for seed, value in values.items() if value is not None}
    known = list(seeds.values())
    return {"mean": _mean(known) if known else None, "spread": _spread(known), "seeds": seeds}


def _mean(values: Sequence[float]) -> float:
    try:
        return fmean(values)
    except OverflowError:  # each is a float, but their sum is none
        return fsum(value / len(values) for value in values)


def _spread(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 and all(map(isfinite, values)) else None
