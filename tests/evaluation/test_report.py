"""The report: what it says, that it is one safe page, and that it renders for every kind of run."""

from dataclasses import asdict
from datetime import UTC, datetime
from html.parser import HTMLParser
from math import inf
from pathlib import Path

import pytest

from memgrow import Learner
from memgrow.data import Domain, Stream
from memgrow.errors import DataError
from memgrow.evaluation.comparison import Comparison, RunResult
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.evaluation.model_tables import judge
from memgrow.evaluation.report import (
    find_results,
    plotted_domains,
    read_results,
    render,
    report_of_comparison,
    report_of_model,
)
from memgrow.evaluation.tables import MEASURES
from research.common.dialogues import synthetic_dialogue

RESULTS = Path(__file__).parents[2] / "results"
NOW = datetime(2026, 1, 31, tzinfo=UTC)
NASTY = "<script>alert('x')</script> $a_b$ & \"q\""


class Page(HTMLParser):
    """Tags, headings and text of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags, self.text, self.open = list[str](), "", list[str]()
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("src", "href") or (value or "").startswith("#"), "the page needs nothing else"

    def handle_data(self, data):
        self.text += data


def matrix(*rows) -> AccuracyMatrix:
    found = AccuracyMatrix()
    for name, scores in rows:
        found = found.with_row(name.split("+"), scores)
    return found


STREAM = matrix(("a", {"a": 0.8, "b": 0.5}), ("b", {"a": 0.7, "b": 0.9}))


@pytest.mark.parametrize(
    ("found", "measure", "level", "said"),
    [
        (STREAM, "accuracy", "amber", "a lost 10.0 points since it was learned (80.0% → 70.0%)"),
        (matrix(("a", {"a": 0.913}), ("b", {"a": 0.663, "b": 0.9})), "accuracy", "red", "lost 25.0 points"),
        (matrix(("a", {"a": 0.8}), ("b", {"a": 0.79, "b": 0.5})), "accuracy", "green", "lost 1.0 points"),
        (matrix(("a", {"a": 0.5}), ("b", {"a": 0.6, "b": 0.5})), "accuracy", "green", "No earlier domain is below"),
        (matrix(("a", {"a": 0.8})), "accuracy", "unknown", "no earlier domain"),
        (matrix(("a", {}), ("b", {"b": 0.5})), "accuracy", "unknown", "tested"),
        (matrix(("a+b", {"a": 0.5, "b": 0.7})), "accuracy", "unknown", "no earlier domain"),
        (matrix(("a", {"a": 0.2, "b": 0.1}), ("b", {"a": 0.1, "b": 0.2})), "perplexity", "red", "2.00 times"),
        (matrix(("a", {"a": 0.0}), ("b", {"a": 0.0, "b": 0.2})), "perplexity", "unknown", "tested"),
        (AccuracyMatrix(), "accuracy", "unknown", "no earlier domain"),
    ],
)
def test_the_verdict_is_about_all_that_was_forgotten(found, measure, level, said):
    verdict = judge(found, MEASURES[measure])
    assert verdict.level == level
    assert said in verdict.sentence


@pytest.mark.parametrize(
    ("before", "now", "rows", "level", "title"),
    [
        (0.75, 0.75, 8, "unknown", "Too few test rows to tell (8)"),
        (1.0, 0.875, 8, "unknown", "Too few test rows to tell (8)"),
        (1.0, 1.0, 8, "unknown", "Too few test rows to tell (8)"),
        (1.0, 0.0, 8, "red", "Severe forgetting"),
        (0.75, 0.75, 2000, "green", "Little or nothing forgotten"),
        (0.75, 0.70, 2000, "amber", "Some forgetting"),
        (0.30, 0.81, 200, "unknown", "Earlier domains gained much"),
        (0.30, 0.81, None, "unknown", "Earlier domains gained much"),
    ],
)
def test_a_verdict_claims_no_more_than_its_test_rows_show(before, now, rows, level, title):
    found = matrix(("a", {"a": before}), ("b", {"a": now, "b": 0.9}))
    verdict = judge(found, MEASURES["accuracy"], rows and {"a": rows, "b": 500})
    assert verdict.level == level
    assert verdict.title.startswith(title)
    assert (f"Test rows: {rows or 0:,}." in verdict.sentence) == bool(rows)


def test_a_domain_with_many_test_rows_is_judged_whatever_another_one_has():
    found = matrix(("a+b", {"a": 0.9, "b": 0.9}), ("c", {"a": 0.6, "b": 0.9, "c": 0.9}))
    verdict = judge(found, MEASURES["accuracy"], {"a": 500, "b": 8})
    assert (verdict.level, list(verdict.unsure)) == ("red", ["b"])
    assert "Test rows: 8 to 500." in verdict.sentence


def test_a_verdict_never_says_that_nothing_was_lost_while_forgetting_is_positive():
    calm = "No earlier domain is below"
    early = matrix(("a", {"a": 0.9}), ("b", {"a": 0.6, "b": 0.9}), ("c", {"a": 0.6, "b": 0.9, "c": 0.9}))
    assert "a lost 30.0 points" in judge(early, MEASURES["accuracy"]).sentence, (
        "an earlier stage, not the last, cost it"
    )
    level = matrix(("a", {"a": 0.8}), ("b", {"a": 0.8, "b": 0.9}))
    over_seeds = judge(level, MEASURES["accuracy"], forgetting=0.03)  # of which the mean matrix shows nothing
    assert (over_seeds.level, calm in over_seeds.sentence) == ("amber", False)
    for last in (0.5, 0.79, 0.8, 0.9):
        found = matrix(("a", {"a": 0.8}), ("b", {"a": last, "b": 0.9}))
        assert (calm in judge(found, MEASURES["accuracy"]).sentence) == (found.forgetting() <= 0)


def test_inspect_the_report_and_its_json_show_the_same_verdict(model):
    learner, domains = model
    report = report_of_model(learner, "model", tuple(domains))
    verdict = judge(learner.history.matrix, MEASURES["accuracy"], {one.name: len(one.test) for one in domains})
    assert report.to_json()["verdict"] == asdict(verdict)
    assert verdict.forgetting == learner.history.summary()["forgetting"]
    text = Page(render(report, NOW)).text
    assert verdict.sentence in text
    assert MEASURES["accuracy"].lost_text(verdict.forgetting) in text


def test_retraining_is_shown_where_it_was_run():
    runs = {
        "F": {0: RunResult(STREAM, 10, 1.0)},
        "multi-task": {0: RunResult(matrix(("a+b", {"a": 0.83, "b": 0.97})), 10, 1.0)},
    }
    found = report_of_comparison(Comparison(runs), "runs", {}, method="F")
    assert found.to_json()["ceiling"] == pytest.approx(0.9)
    assert "retraining 97.0" in Page(render(found, NOW)).text
    assert report_of_comparison(Comparison(runs), "runs", {}, method="multi-task").ceiling is None


@pytest.fixture(scope="module")
def model(stream, tiny, short, tmp_path_factory):
    """A model, and its domains under a name that is no markup."""
    domains = Stream(
        [Domain(NASTY, *(getattr(stream[0], part) for part in ("train", "validation", "test"))), stream[1]]
    )
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    learner.learn(domains)
    return learner, domains


def test_a_model_is_one_page_without_scripts_or_texts(model):
    learner, domains = model
    source = render(report_of_model(learner, "model", tuple(domains)), NOW)
    page = Page(source)
    assert page.tags.count("html") == 1
    assert "script" not in page.tags
    assert not {"img", "link", "iframe", "image"} & set(page.tags), "plots are vectors"
    assert NASTY in page.text
    assert "http://" not in source.replace("http://www.w3.org", "")
    for title in ("after each stage", "Scores on the given data", "labels (rows) and predictions", "Stages"):
        assert title in page.text
    assert "2026-01-31" in page.text
    assert "details" in page.tags
    assert not [one.text for domain in domains for one in domain.test if len(one.text) > 20 and one.text in source]


@pytest.mark.parametrize("folder", ["sentiment", "demo"])
def test_committed_results_have_a_page_with_a_dot_for_each_run(folder):
    found = read_results(find_results(RESULTS / folder))
    source = render(found, NOW)
    assert "Methods compared" in Page(source).text
    assert found.method in Page(source).text
    (dots, _) = source.split('<svg class="dots"')[1:]
    assert dots.count('r="4"') == sum(map(len, found.comparison.results.values()))


def test_replies_have_pages_too(short):
    from memgrow.models import ModelSettings

    domains = synthetic_dialogue(domains=2, train=30, validation=8, test=8)
    model = ModelSettings(cell="gru", embedding=6, hidden=8, slots=4, bidirectional=False)
    learner = Learner.create("F+M+V", model=model, training=short, device="cpu")
    learner.learn(domains)
    text = Page(render(report_of_model(learner, "chat", tuple(domains)), NOW)).text
    assert "Perplexity after each stage" in text
    assert "BLEU-2" in text
    result = RunResult(matrix(("a", {"a": 0.02}), ("b", {"a": 0.0, "b": 0.01})), 10, 1.0, {"a": inf, "b": 4.0})
    compared = report_of_comparison(Comparison({"F": {0: result}, "F+V": {0: result}}, kind="bleu2"), "runs", {})
    assert "inf" in Page(render(compared, NOW)).text


def test_many_domains_have_a_table_and_the_slopes_that_fell_most():
    names = [f"d{number}" for number in range(40)]
    found = AccuracyMatrix()
    for at, name in enumerate(names):
        found = found.with_row([name], {one: 0.9 - (0.3 if one == "d3" else 0.0) * at / 40 for one in names[: at + 1]})
    report = report_of_comparison(Comparison({"F": {0: RunResult(found, 10, 1.0)}}), "runs", {})
    assert len(plotted_domains(report)) == 12
    assert "d3" in plotted_domains(report)
    page = Page(render(report, NOW))
    assert "d39" in page.text
    assert "Framed" not in page.text


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"settings": {}}',
        b'{"settings": 3, "methods": {}, "measure": "accuracy", "failures": []}',
        b'{"settings": {}, "methods": {}, "measure": "nonsense", "failures": []}',
        b'{"settings": {}, "methods": {}, "measure": "accuracy", "failures": []}',
        b'{"settings": {}, "runs": {"F": []}, "first_seed": 0}',
        b"\xff\xfe",
    ],
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "compare.json").write_bytes(content)
    with pytest.raises(DataError):
        read_results(find_results(tmp_path))
