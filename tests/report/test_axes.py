"""The axes of a page's pictures: a few round ticks, each with a text of its own, and names that fit below."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memgrow.data import Domain, Example
from memgrow.evaluation.attention import measure_attention
from memgrow.evaluation.comparison import REPLIES, Comparison, RunResult
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.learner import Learner
from memgrow.report.html.axes import Axes
from memgrow.report.html.page import render
from memgrow.report.lines import shown_domains
from memgrow.report.measures import MEASURES
from memgrow.report.run_plots import save_pictures
from memgrow.report.run_report import RunReport, report_of_comparison, report_of_model

NEAREST = 11  # pixels between the middles of two texts that are 11.5 pixels high, and have no descenders
ACCURACY = MEASURES["accuracy"]


def check_ticks(axes: Axes) -> None:
    texts, places = [tick.text for tick in axes.ticks], [axes.y(tick.at) for tick in axes.ticks]
    assert 2 <= len(texts) <= 8
    assert len(set(texts)) == len(texts)
    assert all(below - above >= NEAREST for below, above in pairwise(places))
    assert max(map(len, texts)) <= 6
    factors = {"k": 1e3, "M": 1e6}
    for tick in axes.ticks:
        number = float(tick.text.rstrip("kM").replace(",", "")) * factors.get(tick.text[-1], 1)
        assert number == pytest.approx(tick.at, rel=1e-6, abs=1e-6)


@given(st.floats(1, 9e8), st.floats(1, 9e8))
@example(11, 19)
@example(22, 45)
@example(52, 95)
@example(20, 100_000)
@example(30, 3e6)
@example(1, 1)
@example(1, 9e8)
def test_a_logarithmic_axis_has_a_few_ticks_that_all_differ(one, other):
    check_ticks(Axes.over(3, [one, other], logarithmic=True))


@given(st.floats(0, 100), st.floats(0, 100))
@example(94.2, 94.38)
@example(1.2, 1.44)
@example(0, 0)
@example(100, 100)
@example(50, 50 + 1e-12)
def test_a_linear_axis_has_a_few_ticks_that_all_differ(one, other):
    check_ticks(Axes.over(3, [one, other]))


def test_where_all_is_infinite_no_scale_is_made_up():
    assert Axes.over(3, [float("inf")], logarithmic=True).ticks == ()


@given(st.floats(0, 1), st.floats(0, 1))
@example(0.9430, 0.9438)
@example(0.5, 0.5 + 1e-15)
def test_the_ends_of_the_strips_of_seeds_differ(one, other):
    runs = {name: {0: RunResult(two(score, score), 1000, 1.0)} for name, score in (("F", one), ("F+V", other))}
    page = render(report_of_comparison(Comparison(runs), "x", {}))
    ends = re.findall(r'class="ends"[^>]*><span>([^<]*)</span><span>([^<]*)</span>', page)
    assert len(ends) == 2
    assert all(low != high for low, high in ends)


def two(first: float, last: float) -> AccuracyMatrix:
    return AccuracyMatrix().with_row(["a"], {"a": first}).with_row(["b"], {"a": last, "b": last})


def test_small_differences_of_bleu2_have_ticks_of_their_own():
    run = RunResult(two(0.0138, 0.0130), 1000, 1.0, {"a": 20.0, "b": 30.0})
    page = render(report_of_comparison(Comparison({"F": {0: run}}, kind=REPLIES), "x", {}))
    ticks = re.findall(r'class="tick end">([^<]*)<', page[page.index("<figure") : page.index("</figure>")])
    assert len(set(ticks)) == len(ticks) > 2


def test_domains_without_a_test_score_have_no_panel(tmp_path):
    matrix = AccuracyMatrix().with_row(["a"], {"a": 0.5}).with_row(["b"], {"a": 0.4})
    report = RunReport("x", "F", ACCURACY, matrix)
    assert shown_domains(report) == ["a"]
    assert render(report).count("<figure") == 1
    bare = replace(report, matrix=AccuracyMatrix().with_row(["a"], {}).with_row(["b"], {}))
    assert "over the stages" not in render(bare)
    assert save_pictures(bare, tmp_path) == []


def test_a_model_whose_data_has_no_test_examples_has_a_page(tiny, short):
    examples = tuple(Example(text, label=label) for text, label in (("good book", "yes"), ("bad book", "no")) * 5)
    domain = Domain("a", examples, examples[:4], ())
    learner = Learner.create("F+M+V", model=tiny, training=short)
    learner.adapt(domain)
    assert measure_attention(learner, [domain]) is None
    assert "On the data given" not in render(report_of_model(learner, "x", [domain]))


def test_full_width_letters_below_an_axis_take_the_room_of_two():
    names = ["書籍のレビュー一覧", "kitchens"]
    matrix = AccuracyMatrix().with_row(names[:1], {names[0]: 0.5}).with_row(names[1:], dict.fromkeys(names, 0.5))
    page = render(RunReport("x", "F", ACCURACY, matrix))
    figure = page[page.index("<figure") : page.index("</figure>")]
    assert re.findall(r'class="tick middle">([^<]*)<', figure) == ["書籍の…", "kitchens"]
