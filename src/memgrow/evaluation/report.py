"""The report: a model, a comparison or the demo as one self-contained HTML page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any

import jinja2
import torch

from memgrow import __version__
from memgrow.data import Domain
from memgrow.data.disk import parse_json
from memgrow.errors import DataError, MemgrowError, SettingsError, brief, counted, listed
from memgrow.evaluation.baselines import REFERENCES
from memgrow.evaluation.comparison import (
    RETRAINING,
    Comparison,
    compared_table,
    keeps_rows,
    legend,
    marked,
    sees_old_data,
    verdict,
)
from memgrow.evaluation.demo import comparison_of
from memgrow.evaluation.history import AccuracyMatrix, History
from memgrow.evaluation.metrics import Confusion
from memgrow.evaluation.model_tables import Verdict, judge, level_of, score_labels, stages_table
from memgrow.evaluation.replies import evaluate_replies
from memgrow.evaluation.tables import (
    MAX_LABELS,
    MISSING,
    Measure,
    Table,
    confusion_table,
    losses_table,
    measure_of_task,
    replies_table,
)
from memgrow.learner import Learner
from memgrow.methods import find_method
from memgrow.models import REPLY
from memgrow.models.base import PRETRAINED, RECURRENT_ONLY
from memgrow.storage.checkpoint import DAMAGED

GENERATOR = "memgrow report"  # marks a page, which a later report may replace
RESULTS = ("compare.json", "demo.json")
OF_SLOTS = {"slot_size", "memory_layers", "key_size", "best"}  # settings
MAX_SLOPES, MAX_MATRIX = 12, 25  # domains with a slope of their own; stages or domains of a matrix
FINE, COARSE, OF_PERPLEXITY = 0.01, 0.1, 0.4  # the least range of shades, so that noise gets no strong colours


@dataclass(frozen=True)
class Report:
    """What a page shows. Of a comparison it is about one `method`, whose mean over seeds is the `matrix`."""

    name: str
    method: str
    measure: Measure
    matrix: AccuracyMatrix
    seeds: tuple[int, ...] = ()
    history: History | None = None  # of a model
    comparison: Comparison | None = None
    failures: tuple[str, ...] = ()
    tested: Table | None = None  # scores on the data that was given
    confusions: Mapping[str, Confusion] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    test_examples: Mapping[str, int] = field(default_factory=dict)  # by domain, as far as known

    @property
    def path(self) -> str:
        return " → ".join("+".join(row.learned) for row in self.matrix.rows)

    @cached_property
    def verdict(self) -> Verdict:
        over_seeds = self.comparison.summary[self.method]["forgetting"].mean if self.comparison is not None else None
        return judge(self.matrix, self.measure, self.test_examples, over_seeds)

    @cached_property
    def ceiling(self) -> AccuracyMatrix | None:
        """The scores of retraining on all data, where a comparison has them."""
        if self.comparison is None or self.method == RETRAINING or RETRAINING not in self.comparison.results:
            return None
        return self.comparison.mean_matrix(RETRAINING)

    def to_json(self) -> dict[str, Any]:
        """The figures at the top of the page."""
        average = self.measure.average
        ceiling = None if self.ceiling is None else average(self.ceiling)
        found = {"method": self.method, "average": average(self.matrix), "ceiling": ceiling}
        return {**found, "verdict": asdict(self.verdict)}


# Where a report comes from


def report_of_model(learner: Learner, name: str, data: Sequence[Domain] = ()) -> Report:
    """A model and its history; with `data`, its scores on these test examples."""
    history, tested = learner.history, [domain for domain in data if domain.test]
    learner.trained()
    scores: Table | None = None
    confusions: Mapping[str, Confusion] = {}
    if tested and learner.task == REPLY:
        scores = replies_table({domain.name: evaluate_replies(learner, domain) for domain in tested})
    elif tested:
        found = score_labels(learner, tested, calibration=True)
        scores, confusions = found.table(), found.confusions
    return Report(
        name,
        learner.method.name,
        measure_of_task(learner.task),
        history.matrix,
        (learner.seed,),
        history,
        tested=scores,
        confusions=confusions,
        settings={
            "model": asdict(learner.settings),
            "training": asdict(learner.training),
            "options": asdict(learner.options),
        },
        test_examples=history.test_examples,
    )


def report_of_comparison(
    comparison: Comparison, name: str, settings: Mapping[str, Mapping[str, Any]], method: str | None = None
) -> Report:
    """A comparison; it is about `method`, or the best method that sees no old data."""
    if not comparison.results:
        raise DataError(f"{name} has no finished runs: run the command that made it again")
    able = [one for one in comparison.order if one not in REFERENCES] or list(comparison.order)
    best = next((one for one in able if not sees_old_data(one)), able[0])
    chosen = best if method is None else method if method in comparison.results else find_method(method).name
    if chosen not in comparison.results:
        raise SettingsError(f"{name} has no runs of {chosen}: choose one of {listed(comparison.results)}")
    measure, matrix = comparison.measure, comparison.mean_matrix(chosen)
    seeds = tuple(comparison.results[chosen])
    return Report(name, chosen, measure, matrix, seeds, comparison=comparison, settings=settings)


def find_results(path: Path) -> Path | None:
    """The results of `compare` or `demo` in a folder or file; None if there are none."""
    return path if path.is_file() else next((path / name for name in RESULTS if (path / name).is_file()), None)


def read_results(path: Path, method: str | None = None) -> Report:
    """The report of a file that `memgrow compare` or `memgrow demo` wrote."""
    try:
        value = parse_json(path.read_bytes())
        is_demo = "runs" in value
        comparison = comparison_of(value) if is_demo else Comparison.from_json(value["methods"], value["measure"])
        settings = {part: dict(values) for part, values in value["settings"].items()}
        failures = [] if is_demo else value["failures"]
        return replace(
            report_of_comparison(comparison, str(path), settings, method),
            failures=tuple(f"{one['method']}, seed {one['seed']}: {one['reason']}" for one in failures),
            test_examples={domain: int(parts["test"]) for domain, parts in value.get("domains", {}).items()},
        )
    except MemgrowError:
        raise
    except (*DAMAGED, StopIteration) as error:  # of any unexpected value
        raise DataError(f"{path} has no results of compare or demo ({brief(error)}): give their folder") from error


# The page


def render(report: Report, now: datetime | None = None) -> str:
    """The report as one HTML file without scripts or external assets."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("memgrow.evaluation"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    comparison, measure, seeds = report.comparison, report.measure, len(report.seeds)
    return environment.get_template("report.html.j2").render(
        report=report,
        generator=GENERATOR,
        made=(now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        over=f", mean of {counted(seeds, 'seed')}" if seeds > 1 else "",
        keeps=keeps_rows(report.method),
        verdict=verdict(comparison) if comparison is not None and not measure.is_perplexity else "",
        legend=legend(comparison, max(map(len, comparison.results.values()))) if comparison is not None else "",
        dots=dict(_dots(comparison)) if comparison is not None and len(comparison.results) > 1 else {},
        slopes=plotted_domains(report) if len(report.matrix.rows) > 1 else [],
        height=_heights(report),
        level_of=level_of,
        max_matrix=MAX_MATRIX,
        max_labels=MAX_LABELS,
        confusion_table=confusion_table,
        tables=dict(_tables(report)),
    )


def plotted_domains(report: Report) -> list[str]:
    """The learned domains with scores; of many those that lost most."""
    matrix, measure = report.matrix, report.measure
    tested = [name for name in matrix.learned_at() if any(name in row.scores for row in matrix.rows)]
    most = sorted(tested, key=lambda name: measure.lost_of(matrix, name) or -1.0)[-MAX_SLOPES:]
    return [name for name in tested if name in most]


def _heights(report: Report) -> Callable[[float | None], float | None]:
    """Where a score lies between the lowest (0) and the highest (1) of the page; a perplexity by its logarithm."""
    measure = report.measure

    def evenly(score: float | None) -> float | None:
        if score is None or not measure.is_perplexity:
            return score
        return log(score) if score > 0 else None

    matrices = [matrix for matrix in (report.matrix, report.ceiling) if matrix is not None]
    after = [(name, row) for matrix in matrices for name, at in matrix.learned_at().items() for row in matrix.rows[at:]]
    known = [value for name, row in after if (value := evenly(row.scores.get(name))) is not None] or [0.0, 1.0]
    least = OF_PERPLEXITY if measure.is_perplexity else COARSE if measure.unit else FINE
    high = max(known)
    low = min(*known, high - least)
    return lambda score: None if (value := evenly(score)) is None else (value - low) / (high - low)


def _dots(comparison: Comparison) -> Iterator[tuple[str, tuple[float, float, dict[str, list[float]]]]]:
    """The average and the forgetting of every seed by method, with the ends of their axis."""
    for figure, title in (("average", f"average at the end: {comparison.measure.axis}"), ("forgetting", "forgetting")):
        seeds = {method: comparison.summary[method][figure].seeds.values() for method in comparison.order}
        if values := [100 * one for some in seeds.values() for one in some]:
            ends = min(values), max(*values, min(values) + 0.1)
            yield title, (*ends, {marked(name): [100 * one for one in some] for name, some in seeds.items()})


def _tables(report: Report) -> Iterator[tuple[str, Table | dict[str, Table]]]:
    matrix = report.matrix
    yield "domains", losses_table(matrix, report.measure, matrix.learned_at(), report.test_examples)
    if report.comparison is not None and len(report.comparison.results) > 1:
        yield "methods", compared_table(report.comparison, len(report.seeds))
    if report.history is not None and report.history.stages:
        yield "stages", stages_table(report.history, report.measure)
    seeds = listed(map(str, report.seeds))
    used = {**_used_settings(report), "versions": {"seeds": seeds, "memgrow": __version__, "torch": torch.__version__}}
    yield "settings", {title: Table(None, ["setting", "value"], list(values.items())) for title, values in used.items()}


def _used_settings(report: Report) -> dict[str, dict[str, str]]:
    """The settings without those that the method or the encoder does not read."""
    model, options = report.settings.get("model", {}), report.settings.get("options", {})
    unread = {*RECURRENT_ONLY} if model.get("cell") == PRETRAINED else set[str]()
    unread |= set() if model.get("slots") else OF_SLOTS
    if report.method not in REFERENCES:
        unread |= options.keys() - {"slots", *find_method(report.method, retired=True).reads()}
    return {
        section: {name: MISSING if one is None else str(one) for name, one in values.items() if name not in unread}
        for section, values in report.settings.items()
    }
