"""The report: a model, a comparison or the demo as one self-contained HTML page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from memgrow import __version__
from memgrow.data import Domain
from memgrow.data.disk import atomic_open, parse_json
from memgrow.errors import DataError, MemgrowError, SettingsError, brief, counted, listed
from memgrow.evaluation import plots
from memgrow.evaluation.baselines import REFERENCES
from memgrow.evaluation.comparison import RETRAINING, Comparison, keeps_rows, sees_old_data
from memgrow.evaluation.comparison_tables import compared_table, legend, verdict
from memgrow.evaluation.demo import Demo
from memgrow.evaluation.history import AccuracyMatrix, History
from memgrow.evaluation.metrics import Confusion, confusion_of
from memgrow.evaluation.model_tables import Verdict, judge, level_of, stages_table
from memgrow.evaluation.replies import evaluate_replies
from memgrow.evaluation.tables import (
    MISSING,
    Measure,
    Table,
    domain_scores,
    measure_of_task,
    numbers,
    replies_table,
    scores_table,
)
from memgrow.learner import Learner
from memgrow.methods import MethodSettings, find_method
from memgrow.models import REPLY, PretrainedSettings
from memgrow.models.base import PRETRAINED
from memgrow.storage.checkpoint import DAMAGED
from memgrow.training.settings import defaults_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GENERATOR = "memgrow report"  # marks a page, which a later report may replace
RESULTS = ("compare.json", "demo.json")
MAX_SLOPES = 12
# Settings that a pretrained encoder, and a model without slots, do not use.
OF_RECURRENT = {
    "min_documents",
    "embedding",
    "hidden",
    "slot_size",
    "layers",
    "bidirectional",
    "tied",
    "lowercase",
    "min_count",
}
OF_SLOTS = {"slot_size", "memory_layers", "memory", "key_size", "best"}


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
        ceiling = None if self.ceiling is None else self.measure.average(self.ceiling)
        return {
            "method": self.method,
            "average": self.measure.average(self.matrix),
            "ceiling": ceiling,
            "verdict": asdict(self.verdict),
        }


# Where a report comes from


def report_of_model(learner: Learner, name: str, data: Sequence[Domain] = ()) -> Report:
    """A model and its history; with `data`, its scores on these test examples."""
    history, tested = learner.history, [domain for domain in data if domain.test]
    learner.trained()
    scores, confusions = None, dict[str, Confusion]()
    if tested and learner.task == REPLY:
        scores = replies_table({domain.name: evaluate_replies(learner, domain) for domain in tested})
    elif tested:
        confusions = {one.name: confusion_of(learner.labels or (), *learner.logits(one)) for one in tested}
        uncalibrated = {domain.name: learner.reliability(domain, temperature=1.0) for domain in tested}
        found = {domain.name: learner.reliability(domain) for domain in tested}
        scores = scores_table(found, uncalibrated, given=learner.accuracy_with_domain(tested))
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
            "method": asdict(learner.options),
        },
        test_examples=history.test_examples,
    )


def report_of_comparison(
    comparison: Comparison,
    name: str,
    settings: Mapping[str, Mapping[str, Any]],
    *,
    failures: Sequence[str] = (),
    method: str | None = None,
) -> Report:
    """A comparison; it is about `method`, or the best method that sees no old data."""
    if not comparison.results:
        raise DataError(f"{name} has no finished runs: run the command that made it again")
    able = [one for one in comparison.order if one not in REFERENCES] or list(comparison.order)
    best = next((one for one in able if not sees_old_data(one)), able[0])
    chosen = best if method is None else method if method in comparison.results else find_method(method).name
    if chosen not in comparison.results:
        raise SettingsError(f"{name} has no runs of {chosen}: choose one of {listed(comparison.results)}")
    return Report(
        name,
        chosen,
        comparison.measure,
        comparison.mean_matrix(chosen),
        tuple(comparison.results[chosen]),
        comparison=comparison,
        failures=tuple(failures),
        settings=settings,
    )


def find_results(path: Path) -> Path | None:
    """The results of `compare` or `demo` in a folder or file; None if there are none."""
    return path if path.is_file() else next((path / name for name in RESULTS if (path / name).is_file()), None)


def read_results(path: Path, method: str | None = None) -> Report:
    """The report of a file that `memgrow compare` or `memgrow demo` wrote."""
    name = str(path)
    try:
        value = parse_json(path.read_bytes())
        settings = {part: dict(values) for part, values in value["settings"].items()}
        if "runs" in value:
            return report_of_comparison(Demo.from_json(value).comparison, name, settings, method=method)
        comparison = Comparison.from_json(value["methods"], value["measure"])
        failures = [f"{one['method']}, seed {one['seed']}: {one['reason']}" for one in value["failures"]]
        tests = {domain: int(parts["test"]) for domain, parts in value.get("domains", {}).items()}
        return replace(
            report_of_comparison(comparison, name, settings, failures=failures, method=method), test_examples=tests
        )
    except MemgrowError:
        raise
    except (*DAMAGED, StopIteration) as error:  # of any unexpected value
        raise DataError(f"{path} has no results of compare or demo ({brief(error)}): give their folder") from error


# Plots


def plotted_domains(report: Report) -> list[str]:
    """The learned domains with scores; of many those that lost most."""
    matrix, measure = report.matrix, report.measure
    tested = [name for name in matrix.learned_at() if any(name in row.scores for row in matrix.rows)]
    most = sorted(tested, key=lambda name: measure.lost_of(matrix, name) or -1.0)[-MAX_SLOPES:]
    return [name for name in tested if name in most]


def figures_of(report: Report) -> "Iterator[tuple[str, Figure]]":
    """All plots of a report by name, as far as there is something to show."""
    matrix, measure, comparison = report.matrix, report.measure, report.comparison
    if max(len(matrix.rows), len(matrix.domains)) <= plots.MAX_MATRIX and any(row.scores for row in matrix.rows):
        yield "matrix", plots.draw_matrices({report.method: matrix}, measure=measure)
    if comparison is not None and len(comparison.results) > 1:
        yield "methods", plots.draw_comparison(comparison)
    if report.confusions:
        yield "confusion", plots.draw_confusions(report.confusions)


def save_plots(report: Report, folder: Path) -> list[Path]:
    """Write all plots as PNG and SVG."""
    written = []
    for name, figure in figures_of(report):
        for kind in ("png", "svg"):
            with atomic_open(folder / f"{name}.{kind}") as file:
                plots.save_figure(figure, file, kind)
            written.append(folder / f"{name}.{kind}")
    return written


# The page


def render(report: Report, now: datetime | None = None) -> str:
    """The report as one HTML file without scripts or external assets."""
    try:
        import jinja2
    except ImportError as error:
        raise SettingsError("the report needs jinja2: install it with `pip install 'memgrow[plots]'`") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("memgrow.evaluation"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    comparison, measure, seeds = report.comparison, report.measure, len(report.seeds)
    grids = [plots.shades(matrix, measure) for matrix in (report.matrix, report.ceiling) if matrix is not None]
    low, high = plots.shade_range(grids, measure)
    return environment.get_template("report.html.j2").render(
        report=report,
        generator=GENERATOR,
        made=(now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        over=f", mean of {counted(seeds, 'seed')}" if seeds > 1 else "",
        keeps=keeps_rows(report.method),
        verdict=verdict(comparison) if comparison is not None and not measure.is_perplexity else "",
        legend=legend(comparison, max(map(len, comparison.results.values()))) if comparison is not None else "",
        slopes=plotted_domains(report) if len(report.matrix.rows) > 1 else [],
        height=lambda score: (plots.evenly(score, measure) - low) / (high - low),
        level_of=level_of,
        is_small=max(len(report.matrix.rows), len(report.matrix.domains)) <= plots.MAX_MATRIX,
        svg={name: plots.to_svg(figure, name) for name, figure in figures_of(report) if name != "matrix"},
        tables=dict(_tables(report)),
    )


def _tables(report: Report) -> Iterator[tuple[str, Table | dict[str, Table]]]:
    matrix, measure = report.matrix, report.measure
    lost = ((name, measure.lost_text(measure.lost_of(matrix, name))) for name in matrix.learned_at())
    tests = {name: f"{count:,}" for name, count in report.test_examples.items()}
    rows = [
        (name, *map(measure.text, domain_scores(matrix, name)), text, tests.get(name, MISSING)) for name, text in lost
    ]
    yield "domains", Table(None, ["domain", *numbers("when learned", "best", "now", "lost", "test rows")], rows)
    if report.comparison is not None and len(report.comparison.results) > 1:
        yield "methods", compared_table(report.comparison, len(report.seeds))
    if report.history is not None and report.history.stages:
        yield "stages", stages_table(report.history, "reply" if report.measure.is_perplexity else None, full=True)
    settings = dict(_used_settings(report))
    settings["versions"] = [
        ("seeds", listed(map(str, report.seeds))),
        ("memgrow", __version__),
        ("torch", torch.__version__),
    ]
    yield "settings", {title: Table(None, ["setting", "value"], rows) for title, rows in settings.items()}


def _used_settings(report: Report) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The settings that the method and the model use, and those that differ from the defaults."""
    model = report.settings.get("model", {})
    is_encoder = model.get("cell") == PRETRAINED
    usual = defaults_for(PretrainedSettings() if is_encoder else None)
    defaults = {**asdict(usual.training), **asdict(usual.options), **asdict(usual.model)}
    unused = {one.name for one in fields(MethodSettings)} - {"slots"}
    unused -= set() if report.method in REFERENCES else find_method(report.method, retired=True).reads()
    unused |= OF_RECURRENT if is_encoder else set()
    unused |= set() if model.get("slots") else OF_SLOTS
    for title, values in report.settings.items():
        used = {name: one for name, one in values.items() if name not in unused or one != defaults.get(name)}
        yield title, [(name, MISSING if one is None else str(one)) for name, one in used.items()]
