"""Summaries of comparisons: means, paired differences, order, and their JSON."""

import json
import math
from pathlib import Path

import pytest

from memgrow.evaluation.comparison import Comparison, RunResult, compared_table, keeps_rows, sees_old_data, verdict
from memgrow.evaluation.demo import comparison_of
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
    found = compared({"finetune": {0: 0.5, 1: 0.7}, "finetune+vocab": {0: 0.6, 1: 0.9}})
    average = found.summary["finetune+vocab"]["average"]
    assert (average.mean, average.seeds) == (pytest.approx(0.75), {0: 0.6, 1: 0.9})
    assert average.spread == pytest.approx(0.3 / 2**0.5)
    assert found.summary["finetune"]["forgetting"].mean == pytest.approx(0.3)
    paired = found.against("finetune+vocab")
    assert (paired.n, paired.difference) == (2, pytest.approx(0.15))
    assert found.against("finetune") is None
    assert found.against("ewc") is None
    assert found.mean_matrix("finetune").score(1, "books") == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("averages", "order"),
    [
        (
            {"finetune": {0: 0.70, 1: 0.90}, "ewc": {0: 0.82}, "finetune+vocab": {0: 0.75, 1: 0.95}},
            ("finetune+vocab", "ewc", "finetune"),
        ),
        ({"finetune": {0: 0.70}, "finetune+vocab": {1: 0.85}}, ("finetune+vocab", "finetune")),
        (
            {"multi-task": {0: 0.9}, "rehearsal": {0: 0.95}, "finetune": {0: 0.5}},
            ("finetune", "rehearsal", "multi-task"),
        ),
    ],
)
def test_methods_are_ordered_by_their_average(averages, order):
    assert compared(averages).order == order


def test_rows_that_see_old_data_are_known():
    seeing = {"multi-task", "bag, all data", "rehearsal"}
    assert {name for name in (*seeing, "finetune", "finetune+vocab", "bag of words") if sees_old_data(name)} == seeing
    assert keeps_rows("rehearsal")
    assert not keeps_rows("multi-task")


def test_json_is_read_back():
    found = Comparison({"finetune": {0: ended(0.9, 0.5), 3: ended(0.8, 0.6)}, "multi-task": {0: ended(0.9)}})
    again = Comparison.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    assert again.summary["multi-task"]["forgetting"].mean is None


def test_infinite_perplexities_are_null_in_json():
    result = ended(0.2, 0.1, perplexities={"books": math.inf, "dvds": 4.0}, epochs=3, best_epoch=2)
    found = Comparison({"finetune": {0: result}}, kind="bleu2")
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["finetune"]["perplexity"]["mean"] is None
    assert Comparison.from_json(json.loads(text), "bleu2").results["finetune"][0].perplexities == result.perplexities
    assert RunResult.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False))) == result
    assert "inf" in compared_table(found, 1).rows[0]


def test_committed_results_are_read():
    value = json.loads((RESULTS / "sentiment" / "compare.json").read_text())
    found = Comparison.from_json(value["methods"], value["measure"])
    assert len(found.order) == len(value["methods"])
    assert found.summary["finetune+vocab"]["average"].mean == value["methods"]["F+V"]["average"]["mean"]
    assert verdict(found)
    assert comparison_of(json.loads((RESULTS / "demo" / "demo.json").read_text())).results
