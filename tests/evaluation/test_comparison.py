"""Summaries of comparisons: means, paired differences, order, and their JSON."""

import json
import math
from pathlib import Path

import pytest

from memgrow.evaluation.comparison import KINDS, REPLIES, Comparison, RunResult, keeps_rows, sees_old_data
from memgrow.evaluation.comparison_tables import compared_table, verdict
from memgrow.evaluation.demo import Demo
from memgrow.evaluation.history import AccuracyMatrix

RESULTS = Path(__file__).parents[2] / "results"


def ended(*averages: float, seconds: float = 2.0, **more) -> RunResult:
    """A run through books and dvds; the last average is that of the end."""
    matrix = AccuracyMatrix()
    for name, average in zip(("books", "dvds")[: len(averages)], averages, strict=True):
        matrix = matrix.with_row((name,), {"books": average, "dvds": average})
    if len(averages) == 1:
        matrix = AccuracyMatrix().with_row(("books", "dvds"), {"books": averages[0], "dvds": averages[0]})
    return RunResult(matrix, 100, seconds, **more)


def compared(averages: dict[str, dict[int, float]]) -> Comparison:
    return Comparison({name: {seed: ended(0.9, one) for seed, one in runs.items()} for name, runs in averages.items()})


def test_figures_are_means_over_seeds_and_differences_are_paired():
    found = compared({"F": {0: 0.5, 1: 0.7}, "F+V": {0: 0.6, 1: 0.9}})
    average = found.summary["F+V"]["average"]
    assert (average.mean, average.seeds) == (pytest.approx(0.75), {0: 0.6, 1: 0.9})
    assert average.spread == pytest.approx(0.3 / 2**0.5)
    assert found.summary["F"]["forgetting"].mean == pytest.approx(0.3)
    paired = found.against("F+V")
    assert (paired.n, paired.difference) == (2, pytest.approx(0.15))
    assert found.against("F") is None
    assert found.against("EWC") is None
    assert found.mean_matrix("F").score(1, "books") == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("averages", "order"),
    [
        ({"F": {0: 0.70, 1: 0.90}, "F+V": {1: 0.85}}, ("F", "F+V")),
        ({"F": {0: 0.90}, "F+V": {0: 0.95, 1: 0.75}}, ("F+V", "F")),
        ({"F": {0: 0.70, 1: 0.90}, "EWC": {1: 0.92}, "F+V": {0: 0.75, 1: 0.95}}, ("F+V", "EWC", "F")),
        ({"F": {0: 0.70}, "F+V": {1: 0.85}}, ("F+V", "F")),
        ({"multi-task": {0: 0.9}, "rehearsal": {0: 0.95}, "F": {0: 0.5}}, ("F", "rehearsal", "multi-task")),
    ],
)
def test_methods_are_ordered_by_their_average_whichever_seeds_failed(averages, order):
    assert compared(averages).order == order


def test_rows_that_see_old_data_are_known():
    seeing = {"multi-task", "bag, all data", "rehearsal"}
    assert {name for name in (*seeing, "F", "F+V", "bag of words") if sees_old_data(name)} == seeing
    assert keeps_rows("rehearsal")
    assert not keeps_rows("multi-task")


def test_json_is_read_back():
    found = Comparison({"F": {0: ended(0.9, 0.5), 3: ended(0.8, 0.6)}, "multi-task": {0: ended(0.9)}})
    again = Comparison.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    assert again.summary["multi-task"]["forgetting"].mean is None


def test_infinite_perplexities_are_null_in_json():
    result = ended(0.2, 0.1, perplexities={"books": math.inf, "dvds": 4.0}, epochs=3, best_epoch=2)
    found = Comparison({"F": {0: result}}, kind=REPLIES)
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["F"]["perplexity"]["mean"] is None
    assert Comparison.from_json(json.loads(text), REPLIES).results["F"][0].perplexities == result.perplexities
    assert RunResult.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False))) == result
    assert "inf" in compared_table(found, 1).rows[0]


def test_without_scipy_there_is_a_difference_without_an_interval(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.special", None)
    monkeypatch.setitem(__import__("sys").modules, "scipy", None)
    paired = compared({"F": {0: 0.5, 1: 0.7}, "F+V": {0: 0.6, 1: 0.9}}).against("F+V")
    assert paired.difference == pytest.approx(0.15)
    assert paired.low is None


def test_committed_results_are_read():
    value = json.loads((RESULTS / "sentiment" / "compare.json").read_text())
    found = Comparison.from_json(value["methods"], KINDS[value["measure"]])
    assert set(found.order) == set(value["methods"])
    assert json.loads(json.dumps(found.to_json())) == value["methods"]
    assert verdict(found)
    demo = Demo.from_json(json.loads((RESULTS / "demo" / "demo.json").read_text()))
    assert demo.comparison.results
