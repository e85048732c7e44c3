"""The results of a comparison: scores by method and seed, their means and spreads, paired differences, tables."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import inf, isfinite
from statistics import fmean, geometric_mean, stdev
from typing import Any

from memgrow.data.disk import finite
from memgrow.errors import counted
from memgrow.evaluation.baselines import REFERENCES
from memgrow.evaluation.history import AccuracyMatrix, History
from memgrow.evaluation.metrics import NO_SPREAD, Paired, paired_over_seeds
from memgrow.evaluation.tables import MEASURES, UNKNOWN, Column, Measure, Table, numbers, percent, perplexity_text
from memgrow.methods import find_method

BASELINE, RETRAINING = "finetune", "multi-task"  # the methods that every other one is measured against
CLEAR, KEEPS = "*", "†"  # after a difference, after a method


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


# Tables and sentences


def marked(name: str) -> str:
    """The name of a method, marked if it keeps rows of earlier domains."""
    return f"{name} {KEEPS}" if keeps_rows(name) else name


def over_seeds(value: OverSeeds, shown: int = 1) -> str:
    return UNKNOWN if value.mean is None else percent(value.mean, digits=shown) + _spread(value.spread, shown)


def difference(paired: Paired | None, shown: int = 1) -> str:
    """The mean difference and its spread, marked where its 95% interval excludes zero."""
    if paired is None:
        return UNKNOWN
    mean = percent(paired.difference, sign=True, digits=shown)
    return mean + _spread(paired.std, shown) + (CLEAR if _is_clear(paired) else "")


def compared_table(comparison: Comparison, seeds: int) -> Table:
    """One row per method, mean and spread over the seeds; methods that see old data below a line."""
    shown, replies = comparison.measure.digits, comparison.kind == "bleu2"
    rows = []
    for method in comparison.order:
        values = comparison.summary[method]
        row = [marked(method), over_seeds(values["average"], shown), difference(comparison.against(method), shown)]
        row.append(over_seeds(values["forgetting"], shown))
        row += [perplexity_text(values["perplexity"].mean or 0.0)] if replies else []
        rows.append([*row, f"{values['parameters'].mean:,.0f}", f"{values['seconds'].mean:,.0f} s"])
    names = ("average", f"vs. {BASELINE}", "forgot", *(["perpl."] if replies else []), "parameters", "time")
    incremental = sum(not sees_old_data(method) for method in comparison.order)
    return Table(
        f"at the end, {comparison.measure.axis}, {counted(seeds, 'seed')}",
        [Column("method", wrap=False), *numbers(*names)],
        rows,
        lines_above=[incremental] if 0 < incremental < len(rows) else (),
    )


def ends_table(comparison: Comparison) -> Table:
    """The final score of each method on each domain, their average, and what was forgotten."""
    ends = {method: comparison.mean_matrix(method) for method in comparison.results}
    names = next(iter(ends.values())).domains
    rows = []
    for method, matrix in ends.items():
        scores, figures = [percent(matrix.score(-1, name)) for name in names], comparison.summary[method]
        rows.append((marked(method), *scores, over_seeds(figures["average"]), over_seeds(figures["forgetting"])))
    columns = [Column("method", wrap=False), *numbers(*names, "average", "forgot")]
    return Table("test accuracy at the end, %", columns, rows)


def ends_sentence(comparison: Comparison) -> str:
    """The three figures of fine-tuning, the best method that sees no old data, and retraining on everything."""
    best = next((one for one in comparison.order if not sees_old_data(one) and one != BASELINE), None)
    called = {BASELINE: "Fine-tuning", **({best: best} if best else {}), RETRAINING: "retraining on everything"}
    ends = [
        f"{called[name]} ends at {over_seeds(comparison.summary[name]['average'])}%"
        for name in called
        if name in comparison.results
    ]
    kept = ", with rows of old data kept" if best and keeps_rows(best) else "; rows of old data kept: 0"
    return f"{', '.join(ends)}{kept}."


def domains_table(comparison: Comparison) -> Table:
    """The final score of each method on each domain."""
    ends = {method: comparison.mean_matrix(method) for method in comparison.order}
    rows = [
        (domain, *(percent(matrix.score(-1, domain), digits=comparison.measure.digits) for matrix in ends.values()))
        for domain in next(iter(ends.values())).domains
    ]
    columns: list[str | Column] = ["domain", *(Column(marked(name), right=True) for name in ends)]
    return Table(f"each domain at the end, {comparison.measure.axis}", columns, rows)


def verdict(comparison: Comparison) -> str:
    """The best method that sees no old data, against fine-tuning and retraining."""
    best = next((name for name in comparison.order if not sees_old_data(name)), "")
    rivals = {BASELINE: "fine-tuning", RETRAINING: "retraining on everything"}
    paired = {rivals[name]: one for name in rivals if (one := comparison.against(best, name)) is not None}
    if not paired:
        return ""
    against = [f"{difference(one, comparison.measure.digits)} points against {name}" for name, one in paired.items()]
    doubt = " One seed: another may differ." if any(one.std is None for one in paired.values()) else ""
    return f"Without old data, {best} ends best: {' and '.join(against)}.{doubt}"


def legend(comparison: Comparison, seeds: int) -> str:
    parts = ["± is the standard deviation over seeds; differences are paired by seed"] if seeds > 1 else []
    pairs = [paired for name in comparison.order if (paired := comparison.against(name)) is not None]
    if any(map(_is_clear, pairs)):
        parts.append(f"{CLEAR}: the 95% interval of the difference excludes zero")
    if any(paired.low is None and (paired.std or 0.0) > NO_SPREAD for paired in pairs):
        parts.append("95% intervals need scipy (pip install 'memgrow[stats]')")
    if any(map(keeps_rows, comparison.results)):
        parts.append(f"{KEEPS}: keeps rows of earlier domains as text in the model's folder")
    references = [f"{name} ({one.about})" for name, one in REFERENCES.items() if name in comparison.results]
    parts += [f"by scikit-learn: {' and '.join(references)}"] if references else []
    if comparison.kind == "bleu2":
        parts.append("perpl.: geometric mean; do not compare methods with and without new words by it")
    return "; ".join(parts)


def _is_clear(paired: Paired) -> bool:
    return paired.low is not None and paired.high is not None and not paired.low <= 0 <= paired.high


def _spread(value: float | None, shown: int) -> str:
    return "" if value is None else f" ± {percent(value, digits=shown)}"
