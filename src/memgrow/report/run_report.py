"""What a report tells of: a model, a comparison or the demo, each brought to the same form."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from statistics import stdev
from typing import Any

from memgrow import __version__
from memgrow.data import Domain
from memgrow.errors import DataError, SettingsError, listed
from memgrow.evaluation.attention import MemoryUse, measure_attention
from memgrow.evaluation.baselines import REFERENCES
from memgrow.evaluation.calibration import Calibration
from memgrow.evaluation.comparison import Comparison, sees_old_data
from memgrow.evaluation.demo import Demo
from memgrow.evaluation.history import AccuracyMatrix, History
from memgrow.evaluation.replies import evaluate_replies
from memgrow.learner import Learner
from memgrow.methods import find_method
from memgrow.models import REPLY
from memgrow.report.learner import replies_table, scores_table
from memgrow.report.measures import MEASURES, Measure, measure_of_task
from memgrow.report.table import Table

NO_MEMORY = "This model has no memory slots: there is nothing that a text could read."
NO_TEXTS = (
    "A model's folder holds no texts, so that whose slots they read is not known here. Give the domains' files after "
    "the model, as in memgrow report model/ books_test.jsonl dvds_test.jsonl, to see it; the page then has the figures "
    "and still none of the texts."
)
NO_MODEL = (
    "A comparison keeps figures and no models. For whose slots the texts read, make a model by the chosen method with "
    "memgrow adapt, and give it to memgrow report with the domains' files."
)


@dataclass(frozen=True)
class RunReport:
    """All that a report shows. Of a comparison it is about one `method`, whose mean over seeds is the `matrix`."""

    name: str
    method: str
    measure: Measure
    matrix: AccuracyMatrix
    seeds: tuple[int, ...] = ()
    history: History | None = None  # of a model
    comparison: Comparison | None = None
    failures: tuple[str, ...] = ()
    memory: MemoryUse | None = None
    no_memory: str = NO_TEXTS  # why there is nothing to show of it
    calibration: Calibration = field(default_factory=Calibration)
    tested: Table | None = None  # how the model does on the data that was given
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def own_name(self) -> str:
        """How the page calls what it is about."""
        return self.method if self.history is None else f"this model ({self.method})"

    def spread(self, method: str, stage: int, domain: str) -> float | None:
        """The standard deviation over seeds of a score that a method had."""
        if self.comparison is None or method not in self.comparison.results:
            return None
        rows = [result.matrix.rows for result in self.comparison.results[method].values()]
        scores = [one[stage].scores.get(domain) for one in rows if stage < len(one)]
        known = [score for score in scores if score is not None]
        return stdev(known) if len(known) > 1 else None


def report_of_model(
    learner: Learner, name: str, data: Sequence[Domain] = (), comparison: "RunReport | None" = None
) -> RunReport:
    """A model and its history; with `data`, what the test examples of these domains say of it now."""
    history = learner.history
    learner.trained()
    beside = None if comparison is None else _fitting(comparison, history, learner)
    tested = [domain for domain in data if domain.test]
    memory = measure_attention(learner, tested)
    bare = not any(len(bank) for bank in learner.trained().banks)
    return RunReport(
        name,
        learner.method.name,
        measure_of_task(learner.task),
        history.matrix,
        (learner.seed,),
        history,
        beside,
        memory=memory,
        no_memory=NO_MEMORY if bare else NO_TEXTS,
        calibration=learner.calibration,
        tested=_tested(learner, tested) if tested else None,
        settings={
            "model": asdict(learner.settings),
            "training": asdict(learner.training),
            "method": asdict(learner.options),
        },
        facts={"labels": listed(learner.labels or ())} if learner.labels else {},
    )


def _tested(learner: Learner, data: Sequence[Domain]) -> Table:
    if learner.task == REPLY:
        return replies_table({domain.name: evaluate_replies(learner, domain) for domain in data})
    plain = {domain.name: learner.reliability(domain, temperature=1.0) for domain in data}
    return scores_table({domain.name: learner.reliability(domain) for domain in data}, plain)


def _fitting(report: RunReport, history: History, learner: Learner) -> Comparison:
    """The comparison, if what it compares is what the model has learnt."""
    comparison = report.comparison
    if comparison is None or learner.task == REPLY or comparison.kind.is_dialogue:
        raise SettingsError(
            "only a comparison of methods that label texts can stand beside a model: give each a report of its own"
        )
    if report.matrix.domains != history.domains:
        raise SettingsError(
            f"the comparison is of {listed(report.matrix.domains)}, but the model has learnt {listed(history.domains)}"
            ": give a comparison of the same domains in the same order"
        )
    return comparison


def report_of_comparison(
    comparison: Comparison,
    name: str,
    settings: Mapping[str, Mapping[str, Any]],
    failures: Sequence[str] = (),
    method: str | None = None,
    memory: Mapping[str, MemoryUse] | None = None,
) -> RunReport:
    """Methods side by side; it is about the one that is named, or the best of those that need no old data."""
    if not comparison.results:
        raise DataError(f"{name} has no run that has ended: give the command that makes it again")
    able = [one for one in comparison.order if one not in REFERENCES] or list(comparison.order)
    best = next((one for one in able if not sees_old_data(one)), able[0])
    chosen = best if method is None else method if method in comparison.results else find_method(method).name
    if chosen not in comparison.results:
        raise SettingsError(f"{name} has no runs of {chosen}; it has {listed(comparison.results)}: choose among these")
    return RunReport(
        name,
        chosen,
        MEASURES[comparison.kind.measure],
        comparison.mean_matrix(chosen),
        tuple(comparison.results[chosen]),
        comparison=comparison,
        failures=tuple(failures),
        memory=(memory or {}).get(chosen),
        no_memory=NO_MODEL,
        settings=settings,
    )


def report_of_demo(
    demo: Demo, name: str, settings: Mapping[str, Mapping[str, Any]], method: str | None = None
) -> RunReport:
    return report_of_comparison(demo.comparison, name, settings, method=method, memory=demo.memory)


def versions() -> dict[str, str]:
    """The versions that a page is made with; training may have had others."""
    found = {"memgrow": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "safetensors"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
