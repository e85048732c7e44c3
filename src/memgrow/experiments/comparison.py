"""Methods compared on one stream: what each ends with, what it forgets and what it costs, seed by seed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import fsum, inf, isfinite
from statistics import fmean, geometric_mean, stdev
from types import MappingProxyType
from typing import Any

import numpy as np

from memgrow.data import Stream
from memgrow.errors import SettingsError
from memgrow.experiments.bag_of_words import REFERENCES
from memgrow.experiments.comparison_setup import LABELS, Kind, perplexities
from memgrow.experiments.grid import Failure, Outcome
from memgrow.experiments.run import Record, Run
from memgrow.history import History
from memgrow.methods import MethodSettings, find_method
from memgrow.metrics import AccuracyMatrix
from memgrow.metrics.significance import Paired, paired_over_seeds, sign_flip
from memgrow.models import ModelSettings
from memgrow.storage import finite
from memgrow.training.settings import TrainingSettings

BASELINE, RETRAINING = "F", "multi-task"  # what every method is to be measured by
METHODS = (BASELINE, "F+V", "F+M+V", "F+V+E", RETRAINING)
ENCODER_METHODS = (BASELINE, "F+E", "F+A", RETRAINING)  # on a pretrained encoder


@dataclass(frozen=True)
class Settings:
    """The settings that all runs of a comparison share."""

    model: ModelSettings = LABELS.model
    training: TrainingSettings = LABELS.training
    options: MethodSettings = field(default_factory=MethodSettings)

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = finite(asdict(self))
        return plain


def runs_of(
    stream: Stream,
    methods: Iterable[str],
    seeds: Iterable[int],
    settings: Settings,
    reference: TrainingSettings | None = None,
) -> dict[str, dict[int, Run]]:
    """The runs of each method by seed; fine-tuning and retraining on everything are always among the methods.

    `reference` is how retraining is trained, where that is another way than that of the others. A method that does not
    go with the model is refused: a run would find that out in its second domain.
    """
    names = dict.fromkeys(find_method(name).name for name in (BASELINE, *methods, RETRAINING))
    for name in names:
        find_method(name).check(settings.model)
    own = dict.fromkeys(names, settings.training) | ({} if reference is None else {RETRAINING: reference})
    return {
        name: {seed: Run(name, stream.names, seed, settings.model, own[name], settings.options) for seed in seeds}
        for name in names
    }


def sees_old_data(name: str) -> bool:
    """Whether a row, a method or a reference, sees data of earlier domains again: all of it, or rows that it keeps."""
    return REFERENCES[name].sees_all if name in REFERENCES else find_method(name).together or keeps_rows(name)


def keeps_rows(name: str) -> bool:
    """Whether a row is that of a method which keeps rows of earlier domains."""
    return name not in REFERENCES and find_method(name).keeps_examples


@dataclass(frozen=True)
class RunResult:
    """One run through a stream: its matrix of scores, its cost, and of replies their perplexities at the end."""

    matrix: AccuracyMatrix
    parameters: int
    seconds: float
    perplexities: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_records(cls, records: Sequence[Record], kind: Kind = LABELS) -> "RunResult":
        matrix = AccuracyMatrix()
        for record in records:
            matrix = matrix.with_row(record.stage.learned, kind.scores(record))
        seconds = sum(record.stage.seconds for record in records)
        return cls(matrix, records[-1].stage.parameters, seconds, perplexities(records[-1]))

    @classmethod
    def of_history(cls, history: History) -> "RunResult":
        seconds = sum(stage.seconds for stage in history.stages)
        return cls(history.matrix, history.stages[-1].parameters, seconds)

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
class OverSeeds:
    """A figure of one method: its mean, its standard deviation and the values of the seeds that have one."""

    mean: float | None
    spread: float | None
    seeds: Mapping[int, float]

    @classmethod
    def of(cls, values: Mapping[int, float | None]) -> "OverSeeds":
        seeds = {seed: value for seed, value in values.items() if value is not None}
        known = list(seeds.values())
        return cls(_mean(known) if known else None, _spread(known), seeds)


@dataclass(frozen=True)
class Comparison:
    """The results of each method by seed. A seed that failed is not among them."""

    results: Mapping[str, Mapping[int, RunResult]]
    failures: tuple[Failure, ...] = ()
    kind: Kind = LABELS

    @classmethod
    def of(
        cls,
        runs: Mapping[str, Mapping[int, Run]],
        outcome: Outcome,
        kind: Kind = LABELS,
        references: Mapping[str, Mapping[int, Sequence[Record]]] = MappingProxyType({}),
    ) -> "Comparison":
        made = outcome.records
        found = {
            method: {seed: RunResult.of_records(made[run], kind) for seed, run in by_seed.items() if run in made}
            for method, by_seed in runs.items()
        }
        for name, by_seed in references.items():
            found[name] = {seed: RunResult.of_records(records, kind) for seed, records in by_seed.items()}
        return cls({method: results for method, results in found.items() if results}, outcome.failures, kind)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Methods by their average at the end, the best first; those that see old data after the others."""
        return tuple(sorted(self.results, key=lambda name: (sees_old_data(name), -self._standing(name))))

    def _standing(self, method: str) -> float:
        """The average that a method is ranked by.

        Seeds are easier and harder. Where a method has not all that fine-tuning has, its mean is of other seeds: it
        then stands as far from fine-tuning as on the seeds that both have.
        """
        own = self.summary[method]["average"]
        paired = self.against(method)
        fine = self.summary[BASELINE]["average"] if paired is not None else own
        if paired is None or own.seeds.keys() == fine.seeds.keys():
            return own.mean or 0.0
        return (fine.mean or 0.0) + paired.difference

    @cached_property
    def summary(self) -> dict[str, dict[str, OverSeeds]]:
        """The figures of each method over the seeds."""
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
        """The difference in average score, paired over the seeds that both have; intervals need scipy."""
        if method == other or not {method, other} <= set(self.results):
            return None
        ours, theirs = (self.summary[name]["average"].seeds for name in (method, other))
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

    @classmethod
    def from_json(cls, methods: Mapping[str, Any], kind: Kind = LABELS) -> "Comparison":
        """The comparison that `to_json` wrote; who failed is not among its figures."""
        return cls({name: _results(figures) for name, figures in methods.items()}, kind=kind)

    def to_json(self) -> dict[str, Any]:
        """All figures; null stands for a number that is beyond a float, as a perplexity may be."""
        plain: dict[str, Any] = finite({method: self._figures(method) for method in self.order})
        return plain

    def _figures(self, method: str) -> dict[str, Any]:
        results = self.results[method]
        against = {other: self.against(method, other) for other in (BASELINE, RETRAINING)}
        by_seed = {seed: result.perplexities for seed, result in results.items() if result.perplexities}
        return {
            **{name: asdict(figure) for name, figure in self.summary[method].items()},
            "against": {other: paired.to_json() for other, paired in against.items() if paired is not None},
            "matrices": {seed: result.matrix.to_json() for seed, result in results.items()},
            **({"perplexities": by_seed} if by_seed else {}),
        }


def _results(figures: Mapping[str, Any]) -> dict[int, RunResult]:
    """The runs of a method by seed, from its figures in JSON."""
    cost, said = (figures["parameters"]["seeds"], figures["seconds"]["seeds"]), figures.get("perplexities", {})
    return {
        int(seed): RunResult(
            AccuracyMatrix.from_json(matrix),
            int(cost[0][seed]),
            float(cost[1][seed]),
            {name: inf if value is None else float(value) for name, value in said.get(seed, {}).items()},
        )
        for seed, matrix in figures["matrices"].items()
    }


def _mean(values: Sequence[float]) -> float:
    try:
        return fmean(values)
    except OverflowError:  # each is a float, but their sum is none
        return fsum(value / len(values) for value in values)


def _spread(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 and all(map(isfinite, values)) else None
