"""A model that has diverged: its perplexity is infinite, which is shown and is no reason to break off."""

import io
import warnings
from types import SimpleNamespace

import pytest

from memgrow.data import Domain, Example
from memgrow.evaluation.history import AccuracyMatrix, Curve, Grew, Stage
from memgrow.evaluation.replies import evaluate_replies
from memgrow.report.html.page import render
from memgrow.report.learner import replies_table
from memgrow.report.measures import MEASURES, Scale
from memgrow.report.plots import Look
from memgrow.report.run_plots import draw_curves, draw_training
from memgrow.report.run_report import RunReport
from memgrow.report.verdict import gain_and_cost

PERPLEXITY, INFINITE = MEASURES["perplexity"], 0.0  # the score is 1 / perplexity


def of_three(first: tuple[float, float], last: tuple[float, float, float]) -> AccuracyMatrix:
    """What a and b were before c was learnt, and all three after it."""
    before, after = dict(zip("ab", first, strict=True)), dict(zip("abc", last, strict=True))
    return AccuracyMatrix().with_row(["a"], {"a": first[0]}).with_row(["b"], before).with_row(["c"], after)


RECOVERED = of_three((INFINITE, 0.05), (0.05, 0.025, 0.1))
NEVER = of_three((INFINITE, INFINITE), (INFINITE, 0.1, INFINITE))
BROKEN = of_three((0.05, 0.05), (INFINITE, 0.05, 0.1))


@pytest.mark.parametrize(
    ("matrix", "lost", "cost"),
    [
        (RECOVERED, 2.0, "the 1 of 2 earlier domains that can be compared × 2.00 on the mean (b 20.00 → 40.00)."),
        (NEVER, None, "What it cost the earlier domains cannot be said: their perplexity was infinite before."),
        (BROKEN, float("inf"), "the 2 earlier domains × inf on the mean (most of all a 20.00 → inf)."),
    ],
)
def test_there_is_no_ratio_where_the_best_is_infinite(matrix, lost, cost):
    assert PERPLEXITY.forgetting(matrix) == lost
    assert gain_and_cost(matrix, PERPLEXITY)[1].endswith(cost)


def test_a_domain_that_stays_infinite_has_gained_nothing():
    assert gain_and_cost(of_three((0.05, 0.05), (0.05, 0.05, 0.1)), PERPLEXITY)[0].startswith("c was learnt")
    again = NEVER.with_row(["c"], {"c": INFINITE})
    assert gain_and_cost(again, PERPLEXITY)[0] == "Learning c brought nothing, and took its perplexity from inf to inf."


@pytest.mark.parametrize("matrix", [RECOVERED, NEVER, BROKEN])
def test_pages_and_pictures_show_what_is_infinite(matrix):
    report = RunReport("x", "F", PERPLEXITY, matrix)
    assert ">inf<" in render(report)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_curves(report, io.BytesIO())
        stage = Stage(("a",), "F", Grew(), 1, 1, 2, 1, 0.0, 1.0, "", curve=Curve((0.5, 0.4), (INFINITE, 0.5)))
        draw_training([stage], PERPLEXITY, io.BytesIO())


def test_evaluate_tells_an_infinite_perplexity_as_inf_and_in_json_as_null():
    class Diverged:
        def evaluate(self, domain, split):
            return {domain.name: INFINITE}

        def reply(self, examples, **_):
            return [SimpleNamespace(text="so it is") for _ in examples]

    figures = evaluate_replies(Diverged(), Domain("a", (), (), (Example("how is it?", reply="so it is"),)))
    assert figures.perplexity == float("inf")
    assert figures.to_json()["perplexity"] is None
    assert "w2v_similarity" not in figures.to_json()
    assert [row[2] for row in replies_table({"a": figures}).rows] == ["inf"]


def test_what_is_infinite_does_not_take_the_colours_of_the_rest():
    scale = Scale.over(PERPLEXITY, [INFINITE, 1 / 80, 1 / 20, 1 / 10])
    assert [scale.step(score, 9) for score in (INFINITE, 1 / 80, 1 / 20, 1 / 10)] == [0, 0, 5, 8]
    assert Look.of(PERPLEXITY, [BROKEN]).end_texts == ("20.00", "10.00")
    assert Scale.over(PERPLEXITY, [INFINITE]).worst == INFINITE
